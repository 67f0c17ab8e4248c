"""The main function of benchmarks that are scripts: `python benchmarks/NAME.py`."""

import argparse
import json
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path

from penstock.benchmarks.harness import Measured, in_turn, report, run_script
from penstock.benchmarks.questions import data_folder


def main(
    names: Collection[str],
    contend: Callable[[str, Path], Measured],
    prepare: Callable[[Path, int], Path],
    *,
    unit: str,
    count: int,
    multiple_of: int = 1,
    rounds: int = 3,
    title: str,
    base: str,
) -> dict[str, Measured]:
    """Make the data, run all contenders on it in turn, and print their medians.

    The script calls itself with `--prepare` to make the data, for a child starts with the peak of
    memory that its parent had, and with `--contender NAME --root PATH` for each run.

    Args:
        names: The contenders.
        contend: Runs one of them on the data.
        prepare: Makes so many in a folder, and says where.
        unit: `rows` or `images`, the option that says how many.
        count: How many, unless the user says so.
        multiple_of: What their number must be a multiple of.
        rounds: How often each contender runs.
        title: Of the table; `{}` in it is the count.
        base: The contender that the others are compared with.

    Returns:
        The medians; none where they were printed as JSON, and none to a child.
    """
    script = sys.argv[0]
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument(f"--{unit}", type=int, default=count, dest="count")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(asdict(contend(args.contender, args.root))))
        return {}
    if args.count % multiple_of:
        parser.error(f"--{unit} must be a multiple of {multiple_of}, got {args.count}")
    if args.prepare:
        print(prepare(args.data, args.count))
        return {}
    made = run_script(script, [*sys.argv[1:], "--prepare"], "making the data")
    arguments = ["--root", made.splitlines()[-1]]
    results = in_turn(script, [(name, arguments) for name in names], args.rounds)
    report(title.format(f"{args.count:,}"), results, base, as_json=args.json)
    return {} if args.json else results
