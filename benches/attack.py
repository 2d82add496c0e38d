#!/usr/bin/env python3
"""What clients of good will notice while others try everything to exhaust the server.

  usage: benches/attack.py BTCGRAPH [SECONDS [WITHOUT]]

Starts `BTCGRAPH demo`, lets 20 clients ask small queries for a quarter of that time (60 s in all of the attack) alone, and
then beside all attacks at once, each from an address of its own in 127.0.0.0/8, for which the limits of one client hold. The
attackers run with less priority than the server and its clients: theirs would be another machine. Prints a table of the
latencies before and during the attack, the most memory that the server took, and what each attack was answered. Fails if the
server has crashed, or does not answer in the end. Attacks with WITHOUT in their names are left out.
Needs nothing but Python, and Linux.
"""

import asyncio
import collections
import json
import multiprocessing
import os
import queue
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time

CLIENTS, PAUSE = 20, 0.05
INTROSPECTION = "__schema { types { name description fields { name description args { name description } } } }"
QUERIES = [
    "{ tip { height hash } }",
    "{ mempool { stats { __typename } } }",
    "{ tip { transactions(first: 5) { nodes { txid fee } } } }",
    "{ __typename }",
]
HANDSHAKE = (
    "GET /graphql HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
).encode()


def post(query, close=False):
    body = json.dumps({"query": query}).encode()
    head = "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if close else "") + "\r\n"
    return head.encode() + body


def frame(first, payload, masked=True):
    """Masked with zeros, which leaves the payload as it is."""
    size, bit = len(payload), 0x80 if masked else 0
    if size < 126:
        head = bytes([first, bit | size])
    elif size < 1 << 16:
        head = bytes([first, bit | 126]) + struct.pack(">H", size)
    else:
        head = bytes([first, bit | 127]) + struct.pack(">Q", size)
    return head + (bytes(4) if masked else b"") + payload


def text(message):
    return frame(0x81, json.dumps(message).encode())


def subscribe(number, query):
    return text({"id": str(number), "type": "subscribe", "payload": {"query": query}})


async def connect(address, port):
    return await asyncio.open_connection("127.0.0.1", port, limit=1 << 16, local_addr=(address, 0))


async def answer(reader):
    """Status and body of an answer with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    return int(head[9:12]), await reader.readexactly(size)


def outcome(status, body):
    try:
        return f"{status} {json.loads(body)['errors'][0]['extensions']['code']}"
    except (ValueError, KeyError, IndexError):
        return str(status)


def close_code(received):
    """The code of a close frame at the end of what was received."""
    at = received.rfind(b"\x88")
    return f"closed {struct.unpack('>H', received[at + 2:at + 4])[0]}" if 0 <= at < len(received) - 3 else "cut off"


class Attack:
    """One way to trouble the server: `turn` is repeated by so many tasks."""

    def __init__(self, name, tasks, turn):
        self.name, self.tasks, self.turn = name, tasks, turn


async def ask_once(address, port, request):
    reader, writer = await connect(address, port)
    try:
        writer.write(request)
        return outcome(*await answer(reader))
    finally:
        writer.close()


NESTING = post("{ tip(a: " + "[" * 2_000 + "]" * 2_000 + ") { height } }")
BOMB = post(
    "{ ...F0 } " + " ".join(f"fragment F{n} on Query {{ ...F{n + 1} ...F{n + 1} }}" for n in range(25))
    + " fragment F25 on Query { __typename }"
)
ALIASES = post("{ " + " ".join(f"a{n}: __typename" for n in range(1_500)) + " }")

def large():
    """Eight times the schema, about a megabyte, is what one request gets; under names of its own, so that it is no answer
    that the server keeps."""
    name = f"a{random.randrange(1 << 32)}"
    return post("{ " + " ".join(f"{name}x{n}: {INTROSPECTION}" for n in range(8)) + " }")


async def large_body(address, port, count):
    """200 MB, as fast as they are taken."""
    reader, writer = await connect(address, port)
    length = b"Transfer-Encoding: chunked" if random.random() < 0.5 else b"Content-Length: 200000000"
    writer.write(b"POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + length + b"\r\n\r\n")
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    answering = asyncio.ensure_future(answer(reader))
    try:
        for _ in range(3_052):
            if answering.done():
                break
            writer.write(piece)
            await writer.drain()
        count(outcome(*await answering))
    finally:
        answering.cancel()
        writer.close()


async def drip(address, port, count, begin, drop, pause):
    """Sends the beginning, and then a drop again and again until the server has had enough."""
    reader, writer = await connect(address, port)
    try:
        writer.write(begin)
        received = b""
        while True:
            try:
                data = await asyncio.wait_for(reader.read(1 << 16), pause)
                received += data
                if not data:
                    break
            except TimeoutError:
                writer.write(drop)
        if received.startswith(b"HTTP/1.1 101"):
            count(close_code(received))
        else:
            count(received[9:12].decode() if received else "cut off")
    finally:
        writer.close()


async def slow_body(address, port, count):
    await drip(address, port, count, post("x" * 100_000)[:200], b"x", 1)


async def slow_head(address, port, count):
    await drip(address, port, count, b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n", 1)


async def fragments(address, port, count):
    begin = HANDSHAKE + text({"type": "connection_init"}) + frame(0x01, b"{" + b" " * 60_000)
    await drip(address, port, count, begin, frame(0x00, b" ") + frame(0x89, b""), 1)


async def open_socket(address, port, count):
    reader, writer = await connect(address, port)
    try:
        writer.write(HANDSHAKE + text({"type": "connection_init"}))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            return count(head[9:12].decode())
        first = await reader.read(1 << 12)
        count("open" if b"ack" in first else close_code(first))
        # most of them are held, so that others find no place
        await asyncio.sleep(2 if b"ack" in first else 0)
    finally:
        writer.close()


async def subscriptions(address, port, count):
    reader, writer = await connect(address, port)
    try:
        writer.write(HANDSHAKE + text({"type": "connection_init"}))
        await reader.readuntil(b"\r\n\r\n")
        for number in range(5_000):
            writer.write(subscribe(number, f"subscription S{number} {{ newBlock {{ hash }} }}"))
        received, end = b"", time.monotonic() + 5
        while time.monotonic() < end:
            try:
                data = await asyncio.wait_for(reader.read(1 << 16), 1)
            except TimeoutError:
                continue
            if not data:
                break
            for _ in range(data.count(b'"error"')):
                count("error QUERY_LIMIT_EXCEEDED" if b"QUERY_LIMIT_EXCEEDED" in data else "error")
            received = data
        count("socket of 5,000")
    finally:
        writer.close()


BAD_FRAMES = [
    frame(0x81, b'{"type":"ping"}', masked=False),
    frame(0xF1, b"{}"),
    frame(0x83, b"{}"),
    frame(0x80, b"{}"),
    frame(0x89, b"x" * 126),
    frame(0x81, b"\xff\xfe"),
    frame(0x81, b"x" * 70_000),
    frame(0x81, b"{"),
    b"\x81\xff" + struct.pack(">Q", 1 << 62) + bytes(4),
    os.urandom(100),
]


async def bad_frame(address, port, count):
    reader, writer = await connect(address, port)
    try:
        writer.write(HANDSHAKE + text({"type": "connection_init"}) + random.choice(BAD_FRAMES))
        await reader.readuntil(b"\r\n\r\n")
        count(close_code(await asyncio.wait_for(reader.read(-1), 20)))
    finally:
        writer.close()


async def never_read(address, port, count):
    """Asks for a megabyte seven times and reads none of it, until the server has had enough."""
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.setblocking(False)
    received, size = b"", 0
    try:
        connection.bind((address, 0))
        await loop.sock_connect(connection, ("127.0.0.1", port))
        await loop.sock_sendall(connection, b"".join(large() for _ in range(7)))
        await asyncio.sleep(15)
        while data := await asyncio.wait_for(loop.sock_recv(connection, 1 << 20), 5):
            received, size = received or data[:16], size + len(data)
        count(f"{received[9:12].decode()}, ended within megabyte {1 + (size >> 20)}")
    except ConnectionResetError:
        count(f"{received[9:12].decode()}, cut off within megabyte {1 + (size >> 20)}")
    finally:
        connection.close()


def once(request):
    async def turn(address, port, count):
        count(await ask_once(address, port, request))

    return turn


ATTACKS = [
    Attack("a list nested 2,000 deep", 4, once(NESTING)),
    Attack("fragments that double 25 times", 4, once(BOMB)),
    Attack("1,500 aliases", 4, once(ALIASES)),
    Attack("bodies of 200 MB", 4, large_body),
    Attack("bodies of a byte a second", 300, slow_body),
    Attack("heads of a line a second", 300, slow_head),
    Attack("sockets opened and held for 2 s", 600, open_socket),
    Attack("5,000 subscriptions a socket", 4, subscriptions),
    Attack("frames that are none", 8, bad_frame),
    Attack("messages of fragments without end", 110, fragments),
    Attack("seven times a megabyte asked for and never read", 60, never_read),
]


def attack(number, port, end, results):
    """Runs one of the attacks in a process of its own."""
    os.nice(9)
    chosen, counts = ATTACKS[number], collections.Counter()
    # the ones that open most have more addresses than one
    addresses = [f"127.0.{number + 1}.{host}" for host in range(1, 5 if chosen.tasks > 100 else 2)]

    async def task(address):
        while time.time() < end:
            try:
                await chosen.turn(address, port, lambda seen: counts.update([seen]))
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, OSError) as error:
                counts.update(["cut off" if isinstance(error, (ConnectionError, asyncio.IncompleteReadError)) else "error"])
            # on a machine of its own an attacker would not take the server's time to ask
            await asyncio.sleep(0.05)

    async def main():
        tasks = [asyncio.create_task(task(addresses[at % len(addresses)])) for at in range(chosen.tasks)]
        await asyncio.sleep(end - time.time())
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks, timeout=5)
        results.put((number, counts))

    asyncio.run(main())


def normal(port, begin, end, results):
    """The clients of good will: latencies before the attack begins, and after."""
    quiet, busy, failures = [], [], collections.Counter()

    async def client(address):
        connection = None
        while time.time() < end:
            started = time.time()
            try:
                connection = connection or await connect(address, port)
                reader, writer = connection
                writer.write(post(random.choice(QUERIES)))
                status, body = await asyncio.wait_for(answer(reader), 20)
                if status != 200 or b'"errors"' in body:
                    failures.update([outcome(status, body)])
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, OSError) as error:
                failures.update([type(error).__name__])
                connection = None
            (quiet if started < begin else busy).append(time.time() - started)
            await asyncio.sleep(PAUSE)

    async def main():
        await asyncio.gather(*(client(f"127.1.0.{number + 1}") for number in range(CLIENTS)))

    asyncio.run(main())
    results.put(("normal", (quiet, busy, failures)))


def status_of(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith(key))


def percentile(latencies, share):
    return sorted(latencies)[min(len(latencies) - 1, int(len(latencies) * share))] * 1_000


async def is_alive(port):
    try:
        return await ask_once("127.2.0.1", port, post("{ tip { height } }")) == "200"
    except (ConnectionError, asyncio.IncompleteReadError, OSError):
        return False


def main(program, seconds=60, without=None):
    if without:
        ATTACKS[:] = [each for each in ATTACKS if without not in each.name]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        port_file = os.path.join(directory, "port")
        environment = {**os.environ, "BTCGRAPH_SERVER__LIMIT_LOOPBACK": "true", "BTCGRAPH_LOG__FILTER": "warn"}
        server = subprocess.Popen(
            [os.path.abspath(program), "demo", "--listen", "127.0.0.1:0", "--port-file", port_file], env=environment, cwd=directory
        )
        try:
            while not os.path.exists(port_file) or not (port := open(port_file, encoding="ascii").read()):
                time.sleep(0.1)
            passed = measure(server, int(port), seconds)
        finally:
            server.terminate()
            server.wait(30)
    sys.exit(0 if passed else 1)


def measure(server, port, seconds):
    time.sleep(10)
    results = multiprocessing.Queue()
    begin = time.time() + max(10, seconds / 4)
    end = begin + seconds
    processes = [multiprocessing.Process(daemon=True, target=normal, args=(port, begin, end, results))]
    attackers = range(len(ATTACKS))
    processes += [multiprocessing.Process(daemon=True, target=attack, args=(at, port, end, results)) for at in attackers]
    processes[0].start()
    time.sleep(begin - time.time())
    before, peak = status_of(server.pid, "VmRSS"), 0
    for process in processes[1:]:
        process.start()
    while time.time() < end + 1 and server.poll() is None:
        peak = max(peak, status_of(server.pid, "VmRSS"))
        time.sleep(0.1)
    found = {}
    try:
        while len(found) < len(processes):
            found.update([results.get(timeout=60)])
    except queue.Empty:
        print("not all have reported what they saw", file=sys.stderr)
    alive = server.poll() is None and asyncio.run(is_alive(port))
    quiet, busy, failures = found["normal"]
    print("| | before | during | ratio |\n|---|---|---|---|")
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        one, other = percentile(quiet, share), percentile(busy, share)
        print(f"| {name} of {CLIENTS} clients of good will | {one:.1f} ms | {other:.1f} ms | {other / one:.1f} |")
    print(f"| their answers | {len(quiet)} | {len(busy)} | |")
    print(f"| those that were no answers | | {dict(failures) or 0} | |")
    print(f"| memory of the server, at most | {before} MiB | {peak} MiB | {peak / before:.1f} |")
    print(f"| it is alive in the end | | {'yes' if alive else 'NO'} | |")
    print("\n| attack | how often | what came of it |\n|---|---|---|")
    for at, each in enumerate(ATTACKS):
        counts = found.get(at, collections.Counter())
        line = ", ".join(f"{seen}: {count:,}" for seen, count in counts.most_common(4))
        print(f"| {each.name} | {sum(counts.values()):,} | {line} |")
    return alive


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:3]), *sys.argv[3:])
