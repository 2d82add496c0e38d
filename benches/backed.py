#!/usr/bin/env python3
"""Keeps free memory of a virtual machine backed by its host while a bench runs beside it.

A host that takes free memory back (virtio-balloon, "free page reporting") has to find and clear a page again when the guest uses
it for the first time, which takes the guest several times as long as a page that the host never took. A machine that has been up
for a while has little such memory, a fresh one nothing else, and a bench measures the host. This takes some memory and frees
every other page of it: what is free then is in single pages, of which none is returned to the host.

usage: backed.py GIB    half of it is free for others; runs until it is interrupted
"""

import mmap
import signal
import sys
import time


def main(gib):
    size = int(gib * (1 << 30))
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # pages of 2 MiB would be freed whole
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    begun = time.monotonic()
    for at in range(0, size, mmap.PAGESIZE):
        memory[at] = 1
    per_page = (time.monotonic() - begun) / (size / mmap.PAGESIZE)
    for at in range(0, size, 2 * mmap.PAGESIZE):
        memory.madvise(mmap.MADV_DONTNEED, at, mmap.PAGESIZE)
    print(f"{gib} GiB taken, {per_page * 1e6:.1f} us a page, and half of it freed; ctrl-c ends it", flush=True)
    signal.pause()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(float(sys.argv[1]))
    except KeyboardInterrupt:
        pass
