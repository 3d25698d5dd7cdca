# bash completion for smartcp. Made from the table of options by crates/cli/src/generate; do not edit.

# Completes the argument of option $1 that begins with $2.
_smartcp_value() {
    local option=$1 value=$2 head=
    case $option in
        --use-smartread|-S)
            mapfile -t COMPREPLY < <(compgen -W 'yes no' -- "$value") ;;
        --format)
            mapfile -t COMPREPLY < <(compgen -W 'auto raw container' -- "$value") ;;
        --container)
            mapfile -t COMPREPLY < <(compgen -W 'raw keep' -- "$value") ;;
        --page-files)
            mapfile -t COMPREPLY < <(compgen -W 'keep drop' -- "$value") ;;
        --if-changed)
            mapfile -t COMPREPLY < <(compgen -W 'retry warn fail' -- "$value") ;;
        --sparse|-s)
            mapfile -t COMPREPLY < <(compgen -W 'always never' -- "$value") ;;
        --zero-scan)
            mapfile -t COMPREPLY < <(compgen -W 'yes no' -- "$value") ;;
        --buffer-size)
            COMPREPLY=() ;;
        --direct-io)
            mapfile -t COMPREPLY < <(compgen -W 'auto yes no' -- "$value") ;;
        --stats-output|-T)
            mapfile -t COMPREPLY < <(compgen -W 'json none' -- "$value") ;;
        *) return 1 ;;
    esac
}

_smartcp_options=(
    -S --use-smartread= --format= --container= --page-files= --snapshot
    --if-changed= -s --sparse= --zero-scan= --md5 --buffer-size=
    --direct-io= --read-only --write-only -v --verbose -g
    --debug -T --stats-output= -h --help --version
)

_smartcp() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev= before= i
    ((COMP_CWORD >= 1)) && prev=${COMP_WORDS[COMP_CWORD - 1]}
    ((COMP_CWORD >= 2)) && before=${COMP_WORDS[COMP_CWORD - 2]}
    COMPREPLY=()
    # bash takes `=` for a word of its own.
    if [[ $cur == = && $prev == --* ]]; then
        _smartcp_value "$prev" "" && return
    elif [[ $prev == = && $before == --* ]]; then
        _smartcp_value "$before" "$cur" && return
    elif [[ $prev == -[SsT] ]]; then
        _smartcp_value "$prev" "$cur" && return
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] && return
    done
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${_smartcp_options[*]}" -- "$cur")
        [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    fi
}

complete -o bashdefault -o default -F _smartcp smartcp
