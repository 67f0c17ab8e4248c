"""A child process of `penstock bench`: makes the data, or runs one contender.

python child.py BENCHMARK OPTIONS [GROUP CONTENDER]
"""

import json
import os
import sys
from dataclasses import asdict

from penstock.benchmarks.harness import BENCHMARKS, load
from penstock.components.errors import PenstockError


def main() -> None:
    """Prepares, or runs one contender; an error of the user is one line on stderr."""
    name, text, *which = sys.argv[1:]
    module = load(name)
    options = getattr(module, BENCHMARKS[name])(**json.loads(text))
    if not which:
        try:
            module.prepare(options)
        except PenstockError as error:
            sys.exit(str(error))
        return
    group, one = which
    print(json.dumps(asdict(module.groups(options)[int(group)].contenders[one]())), flush=True)
    # Python's own end can hang while threads of tf.data ask a generator for batches: they wait for
    # its lock, and it waits for them.
    os._exit(0)


if __name__ == "__main__":
    main()
