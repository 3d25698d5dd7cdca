#!/bin/bash
# Measures haul-mpi with 1, 2, 4 and 8 ranks on this machine, and prints what the model predicts beside it.
#
#   docs/examples/measure-ranks.sh DIR [RUNS]
#
# DIR is an empty directory on the filesystem to measure; 25 GiB are enough. Programs and words of mpirun come from the
# environment: HAUL_MPI, HAUL_MODEL, MPIRUN. With Open MPI as root on few processors:
#   MPIRUN='mpirun --allow-run-as-root --oversubscribe'
# SIZE is that of the large file in MiB (4096), DIRECTORIES the number of those with 100 files of 4 KiB each (1000).
# The measured times stay in DIR as empty.csv, tree.csv and file.csv, lines of RANKS,SECONDS.
set -euo pipefail

dir=${1:?usage: measure-ranks.sh DIR [RUNS]}
runs=${2:-5}
haul_mpi=${HAUL_MPI:-haul-mpi}
haul_model=${HAUL_MODEL:-haul-model}
read -r -a mpirun <<<"${MPIRUN:-mpirun}"
size=${SIZE:-4096}
directories=${DIRECTORIES:-1000}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

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

# What starting and ending a job costs, by the least time of an empty tree.
least() { awk -F, -v ranks="$1" '$1 == ranks && (!least || $2 < least) { least = $2 } END { print least }' "$dir/empty.csv"; }
start_per_rank=$(awk -v one="$(least 1)" -v eight="$(least 8)" 'BEGIN { x = (eight - one) / 7; printf "%.4f", (x > 0 ? x : 0) }')
start=$(awk -v one="$(least 1)" -v more="$start_per_rank" 'BEGIN { x = one - more; printf "%.4f", (x > 0 ? x : 0) }')
echo "start = $start s, and $start_per_rank s for each rank"

model=("$haul_model" "--config=$here/two-cores.toml" "--start=$start" "--start-per-rank=$start_per_rank"
    "--cores-per-node=$(nproc)")
echo
echo "$((directories * 100)) files of 4 KiB:"
echo
"${model[@]}" "--files=$((directories * 100))" "--compare=$dir/tree.csv" --fit=cpu-per-file
echo
echo "One file of $size MiB:"
echo
"${model[@]}" --files=0 --large-files=1 "--large-size=${size}M" "--compare=$dir/file.csv" --fit=cpu-per-byte
