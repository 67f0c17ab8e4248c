"""A scan of CSV that the page cache holds, by one process and by several: wall and CPU seconds.

The trips that the tfx wheel ships, over and over, in four files. Wall times say something only
where nothing else runs; CPU times are of all processes, their start included.

    python benchmarks/scale_scan.py                    4 GB, 2 processes, a minute
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from penstock.benchmarks.scale import write_trips
from penstock.components.errors import DataError
from penstock.components.sources.csv.source import open_csv
from penstock.components.sources.options import Table
from penstock.components.sources.spread import spread_by
from penstock.components.tfrecord.sharding import MIB

FILES, TIMES_BYTES = 4, 1_922_528  # of the trips written once


def prepare(folder: Path, size: int) -> int:
    """About so many bytes, in the page cache; how many they are."""
    for number in range(FILES):
        write_trips(folder / f"{number}.csv", -(-size // (TIMES_BYTES * FILES)))
    for path in folder.iterdir():
        with path.open("rb", buffering=0) as file:
            while file.read(MIB):
                pass
    return sum(path.stat().st_size for path in folder.iterdir())


def scan(folder: Path, workers: int) -> tuple[float, float, str]:
    """Wall and CPU seconds of a scan, and what it found."""
    began, cpu = time.perf_counter(), sum(os.times()[:4])
    source = open_csv([str(folder)], Table(), spread_by(workers, folder))
    return time.perf_counter() - began, sum(os.times()[:4]) - cpu, source.fingerprint


def main() -> None:
    """Scan in turns, and print the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=4_000_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        size = prepare(Path(folder), args.bytes)
        runs = [(n, *scan(Path(folder), n)) for _ in range(args.rounds) for n in (1, args.workers)]
    if len({found for *_, found in runs}) > 1:
        raise DataError(f"{args.workers} processes found something else than one")
    wall = {n: min(wall for m, wall, _, _ in runs if m == n) for n in (1, args.workers)}
    cpu = {n: min(cpu for m, _, cpu, _ in runs if m == n) for n in (1, args.workers)}
    faster = wall[1] / wall[args.workers]
    if args.json:
        print(json.dumps({"bytes": size, "wall_s": wall, "cpu_s": cpu, "times_as_fast": faster}))
        return
    print(f"{size / 1e9:.1f} GB of CSV in {FILES} files, the best of {args.rounds} rounds")
    for n in wall:
        print(f"{n} process{'es' * (n > 1):2}  {wall[n]:6.2f} s  {cpu[n]:6.2f} s of CPU")
    print(f"{faster:.2f} times as fast")


if __name__ == "__main__":
    main()
