# bash completion for haul. Made from the table of options by crates/cli/src/generate; do not edit.

# Completes the argument of option $1 that begins with $2.
_haul_value() {
    local option=$1 value=$2 head=
    case $option in
        --exclude)
            COMPREPLY=() ;;
        --include)
            COMPREPLY=() ;;
        --exclude-from)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        --max-size)
            COMPREPLY=() ;;
        --min-size)
            COMPREPLY=() ;;
        --newer-than)
            COMPREPLY=() ;;
        --files-from)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        --list-out)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        --list)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        --shard)
            COMPREPLY=() ;;
        --job)
            COMPREPLY=() ;;
        --target-directory|-t)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$value") ;;
        --update)
            mapfile -t COMPREPLY < <(compgen -W 'all none none-fail older changed content' -- "$value") ;;
        --backup)
            mapfile -t COMPREPLY < <(compgen -W 'none simple existing numbered' -- "$value") ;;
        --suffix|-S)
            COMPREPLY=() ;;
        --delete)
            mapfile -t COMPREPLY < <(compgen -W 'safe force' -- "$value") ;;
        --max-delete)
            COMPREPLY=() ;;
        --preserve)
            [[ $value == *,* ]] && head=${value%,*},
            compopt -o nospace
            mapfile -t COMPREPLY < <(compgen -P "$head" -W 'mode timestamps ownership links context xattr all flags project' -- "${value##*,}") ;;
        --no-preserve)
            [[ $value == *,* ]] && head=${value%,*},
            compopt -o nospace
            mapfile -t COMPREPLY < <(compgen -P "$head" -W 'mode timestamps ownership links context xattr all flags project' -- "${value##*,}") ;;
        --context)
            COMPREPLY=() ;;
        --reflink)
            mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$value") ;;
        --clone-tree)
            mapfile -t COMPREPLY < <(compgen -W 'never auto always' -- "$value") ;;
        --sparse)
            mapfile -t COMPREPLY < <(compgen -W 'never auto always' -- "$value") ;;
        --smart)
            mapfile -t COMPREPLY < <(compgen -W 'off auto require' -- "$value") ;;
        --engine)
            mapfile -t COMPREPLY < <(compgen -W 'auto reference read-write copy-range clone splice mapped mapped-direct direct io-uring linux-aio posix-aio dontcache null' -- "$value") ;;
        --buffer-size)
            COMPREPLY=() ;;
        --cache)
            mapfile -t COMPREPLY < <(compgen -W 'auto keep drop' -- "$value") ;;
        --writeback)
            mapfile -t COMPREPLY < <(compgen -W 'auto kernel' -- "$value") ;;
        --preallocate)
            mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$value") ;;
        --jobs|-j)
            COMPREPLY=() ;;
        --profile)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        --readahead)
            COMPREPLY=() ;;
        --limit)
            COMPREPLY=() ;;
        --control)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        --priority)
            COMPREPLY=() ;;
        --durable)
            mapfile -t COMPREPLY < <(compgen -W 'none flush file' -- "$value") ;;
        --verify)
            mapfile -t COMPREPLY < <(compgen -W 'off read device' -- "$value") ;;
        --checksum)
            mapfile -t COMPREPLY < <(compgen -W 'blake3 xxh3 sha256 md5' -- "$value") ;;
        --digests)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        --if-changed)
            mapfile -t COMPREPLY < <(compgen -W 'retry warn fail ignore' -- "$value") ;;
        --progress)
            mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$value") ;;
        --stats)
            mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$value") ;;
        --failures)
            compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        *) return 1 ;;
    esac
}

_haul_options=(
    -R -r --recursive -P --no-dereference -L
    --dereference -H --copy-contents --skip-offline --open-noatime --move
    -x --one-file-system --parents --strip-trailing-slashes --exclude= --include=
    --exclude-from= --exclude-caches --max-size= --min-size= --newer-than= --files-from=
    -0 --from0 --list-out= --list= --shard= --job=
    -t --target-directory= -T --no-target-directory -f --force
    -i --interactive -n --no-clobber -u --update
    --update= --remove-destination -b --backup --backup= -S
    --suffix= --keep-directory-symlink -l --link -s --symbolic-link
    --delete --delete= --delete-excluded --max-delete= --mirror -a
    --archive -d -p --preserve --preserve= --no-preserve=
    --attributes-only -Z --context --context= --reflink --reflink=
    --clone-tree --clone-tree= --sparse= --smart --smart= --punch
    --snapshot --engine= --buffer-size= --cache= --writeback= --preallocate
    --preallocate= -j --jobs= --profile= --readahead --readahead=
    --limit= --yield --control= --priority= --durable --durable=
    --atomic --verify --verify= --checksum= --digests= --if-changed=
    --resume -v --verbose -q --quiet --debug
    --explain --progress --progress= --stats --stats= --failures=
    --json --compare --dry-run --fail-fast --keep-going --help
    --version
)

_haul() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev= before= i
    ((COMP_CWORD >= 1)) && prev=${COMP_WORDS[COMP_CWORD - 1]}
    ((COMP_CWORD >= 2)) && before=${COMP_WORDS[COMP_CWORD - 2]}
    COMPREPLY=()
    # bash takes `=` for a word of its own.
    if [[ $cur == = && $prev == --* ]]; then
        _haul_value "$prev" "" && return
    elif [[ $prev == = && $before == --* ]]; then
        _haul_value "$before" "$cur" && return
    elif [[ $prev == -[tSj] ]]; then
        _haul_value "$prev" "$cur" && return
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] && return
    done
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${_haul_options[*]}" -- "$cur")
        [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    fi
}

complete -o bashdefault -o default -F _haul haul
