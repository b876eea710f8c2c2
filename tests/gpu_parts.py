"""Scripts of the GPU engine, one after the other in one process: importing torch and Triton takes
as long as some of them.

    TRITON_INTERPRET=1 python tests/gpu_parts.py gpu_faults.py --every 6 -- gpu_front.py --every 4
"""

import itertools
import runpy
import sys
from pathlib import Path


def main():
    statuses = []
    for is_end, words in itertools.groupby(sys.argv[1:], lambda word: word == "--"):
        if is_end:
            continue
        sys.argv = list(words)
        try:
            runpy.run_path(str(Path(__file__).parent / sys.argv[0]), run_name="__main__")
        except SystemExit as end:
            statuses.append(end.code)
        print(*sys.argv, "exits with", statuses[-1], flush=True)
    sys.exit(any(statuses))


if __name__ == "__main__":
    main()
