"""haul_copy.copytree and shutil.copytree in turns: `python benches/copytree.py DIR [RUNS [FILES]]`, with a release wheel installed.

Makes FILES (100,000) files of 1 to 16 KiB in DIR, 100 in a folder, copies them RUNS (5) times by each, and compares every copy.
"""

import os
import shutil
import statistics
import sys
import time

import haul_copy


def make(src, files):
    contents = os.urandom(16 << 10)
    for number in range(files):
        folder = f"{src}/{number // 3200}/{number // 100}"
        if number % 100 == 0:
            os.makedirs(folder)
        with open(f"{folder}/{number}", "wb") as file:
            file.write(contents[: 1024 + number * 151 % 15360])


def main(top, runs=5, files=100_000):
    top = os.path.join(top, f"haul-copytree-{os.getpid()}")
    src, dst = f"{top}/src", f"{top}/dst"
    functions = [shutil.copytree, haul_copy.copytree]
    times = {function: [] for function in functions}
    os.makedirs(top)
    try:
        make(src, files)
        for number in range(runs + 1):
            for function in functions if number % 2 else functions[::-1]:
                start = time.perf_counter()
                function(src, dst)
                took = time.perf_counter() - start
                differences = [found for found in haul_copy.compare(src, dst) if found.what != "owner"]
                if differences:
                    sys.exit(f"{function.__module__}: {differences[:5]}")
                shutil.rmtree(dst)
                # The first one of each brings memory and caches into their state.
                if number:
                    times[function].append(took)
    finally:
        shutil.rmtree(top)
    for function, took in times.items():
        median = statistics.median(took)
        print(f"{function.__module__:18} {median:.2f} s ({min(took):.2f}-{max(took):.2f})")
    theirs, ours = (statistics.median(times[function]) for function in functions)
    print(f"{theirs / ours:.2f} times as fast, {files} files, {runs} runs, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
