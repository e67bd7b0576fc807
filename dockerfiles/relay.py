"""Carries what a build step sends to 127.0.0.1 to the gateway's unix socket and back. Arguments: socket, port.

The same as relay.pl, for images without Perl; Python 3.6 and later. Returns as soon as it listens.
"""

import contextlib
import os
import socket
import sys
import threading


def carry(source, target):
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def serve(step, place):
    gateway = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        gateway.connect(place)
        there = threading.Thread(target=carry, args=(step, gateway))
        there.start()
        carry(gateway, step)
        there.join()
    except OSError:
        pass
    finally:
        gateway.close()
        step.close()


def main(place, port):
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(port)))
    listening.listen(128)
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    while True:
        step, _ = listening.accept()
        thread = threading.Thread(target=serve, args=(step, place))
        thread.daemon = True
        thread.start()


main(*sys.argv[1:])
