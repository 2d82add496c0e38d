#!/usr/bin/env python3
"""How much memory idle websockets cost a server that runs on this machine.

  usage: benches/sockets.py PID PORT [SOCKETS [SUBSCRIPTIONS EACH]]

Opens that many sockets (10,000) of graphql-transport-ws on http://127.0.0.1:PORT/graphql, each acknowledged and with so
many subscriptions to newBlock (0), waits, and prints what the resident memory of process PID grew by, a socket. Raise
`ulimit -n` above the number of sockets for both processes. Needs nothing but Python.
"""

import asyncio
import json
import struct
import sys

HANDSHAKE = (
    "GET /graphql HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
).encode()
TEXT, PONG = 0x81, 0x8A


def frame(opcode, payload):
    """Masked with zeros, which leaves the payload as it is."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
    return bytes([opcode]) + length + bytes(4) + payload


def text(message):
    return frame(TEXT, json.dumps(message).encode())


async def client(port, subscriptions, ready):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 12)
    writer.write(HANDSHAKE + text({"type": "connection_init"}))
    await reader.readuntil(b"\r\n\r\n")
    await reader.readuntil(b"}")
    for number in range(subscriptions):
        payload = {"query": "subscription { newBlock { hash } }"}
        writer.write(text({"id": str(number), "type": "subscribe", "payload": payload}))
    ready()
    while data := await reader.read(1 << 12):
        # whatever came, a pong is an answer to a ping in it
        writer.write(frame(PONG, b"") if 0x89 in data else b"")


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def main(pid, port, sockets=10_000, subscriptions=0):
    before, open_sockets = resident(pid), 0

    def ready():
        nonlocal open_sockets
        open_sockets += 1

    tasks = []
    for number in range(sockets):
        tasks.append(asyncio.create_task(client(port, subscriptions, ready)))
        while number - open_sockets > 200:
            await asyncio.sleep(0.001)
    while open_sockets < sockets:
        await asyncio.sleep(0.01)
    for seconds in (2, 5, 30):
        await asyncio.sleep(seconds)
        grown = resident(pid) - before
        alive = sum(not task.done() for task in tasks)
        print(f"{alive} sockets, {subscriptions} subscriptions each: {grown / sockets:.2f} KiB a socket")


asyncio.run(main(*map(int, sys.argv[1:])))
