#!/bin/bash
# Measures haul-mpi with 1, 2, 4 and 8 ranks on this machine.
#
#   docs/examples/measure-ranks.sh DIR [RUNS]
#
# DIR is an empty directory on the filesystem to measure; 25 GiB are enough. Programs and words of mpirun come from the
# environment: HAUL_MPI, MPIRUN. With Open MPI as root on few processors:
#   MPIRUN='mpirun --allow-run-as-root --oversubscribe'
# SIZE is that of the large file in MiB (4096), DIRECTORIES the number of those with 100 files of 4 KiB each (1000).
# The measured times stay in DIR as empty.csv, tree.csv and file.csv, lines of RANKS,SECONDS.
set -euo pipefail

dir=${1:?usage: measure-ranks.sh DIR [RUNS]}
runs=${2:-5}
haul_mpi=${HAUL_MPI:-haul-mpi}
read -r -a mpirun <<<"${MPIRUN:-mpirun}"
size=${SIZE:-4096}
directories=${DIRECTORIES:-1000}

mkdir -p "$dir/empty" "$dir/tree" "$dir/file"
for ((number = 0; number < directories; number++)); do
    part=$dir/tree/$((number / 32))/$number
    [ -d "$part" ] && continue
    mkdir -p "$part"
    head -c 409600 /dev/urandom | split --bytes=4096 --suffix-length=3 - "$part/"
done
[ -e "$dir/file/large" ] || head -c "${size}M" /dev/urandom >"$dir/file/large"

copies=0

# Seconds of one copy of $dir/$1 by $2 ranks; each copy is a new one, and is compared with its source.
measure() {
    local start end copy=$dir/copy
    sync -f "$dir"
    cat "$dir/$1"/large >/dev/null 2>&1 || true
    start=$EPOCHREALTIME
    "${mpirun[@]}" -n "$2" "$haul_mpi" -a -T "$dir/$1" "$copy" >&2
    end=$EPOCHREALTIME
    diff --recursive --brief "$dir/$1" "$copy" >&2
    # ext4 does not reuse an inode for a minute and searches past those that were deleted: small files stay to the end.
    if [ "$1" = tree ]; then mv "$copy" "$dir/done.$((++copies))"; else rm -rf "$copy"; fi
    LC_ALL=C awk -v start="$start" -v end="$end" 'BEGIN { printf "%.4f\n", end - start }'
}

for what in empty tree file; do
    echo ranks,seconds >"$dir/$what.csv"
    # They take turns, so that a change of the machine meets all of them. The first round does not count.
    for ((run = 0; run <= runs; run++)); do
        for ranks in 1 2 4 8; do
            measure "$what" "$ranks" >"$dir/seconds"
            [ "$run" -eq 0 ] || echo "$ranks,$(cat "$dir/seconds")" >>"$dir/$what.csv"
        done
    done
done

rm -rf "$dir"/done.* "$dir/seconds"

# The median of a number of ranks, in brackets the range.
median() {
    awk -F, -v ranks="$2" '$1 == ranks { print $2 }' "$dir/$1.csv" | sort -g |
        awk '{ x[NR] = $1 } END { printf "%.3g (%.3g-%.3g)", (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, x[1], x[NR] }'
}

echo
echo "| ranks | an empty tree, s | $((directories * 100)) files of 4 KiB, s | one file of $size MiB, s |"
echo "|---:|---:|---:|---:|"
for ranks in 1 2 4 8; do
    echo "| $ranks | $(median empty "$ranks") | $(median tree "$ranks") | $(median file "$ranks") |"
done
