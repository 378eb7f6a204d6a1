"""Messages of stores: requests to a table of keys and their answers, in a format that only holds data.

A part is text, bytes, a 64-bit integer, a bool, None or a list of such parts, and lists do not nest.  Messages may come
from untrusted peers: one that does not follow the format raises ValueError or TypeError.
"""
from __future__ import annotations

import struct

COUNT = struct.Struct("<I")
PART = struct.Struct("<cI")
INTEGER = struct.Struct("<q")
LIMIT = 1 << 26  # bytes of a message; one that announces more is refused before it is read
MOST_KEYS = 1 << 17  # of a question: the server looks all of them up before it attends to another client
SIGNATURES = {"set": (str, bytes), "get": (str,), "add": (str, int), "append": (str, bytes),
              "compare_set": (str, bytes, bytes), "delete_key": (str,), "num_keys": (), "list_keys": (),
              "queue_push": (str, bytes), "queue_pop": (str,), "queue_take": (str,), "queue_len": (str,)}
OF_KEYS = ("wait", "check")  # questions about any number of keys


def check_question(kind, given):
    """Raise TypeError for a request that a table does not have, or for arguments that it does not take."""
    if not isinstance(kind, str) or kind not in OF_KEYS and kind not in SIGNATURES:
        raise TypeError(f"unknown store request {kind!r:.50}; expected one of {', '.join((*OF_KEYS, *SIGNATURES))}")
    accepted = (str,) * len(given) if kind in OF_KEYS else SIGNATURES[kind]
    if len(given) > MOST_KEYS:
        raise TypeError(f"{kind}() of a store takes at most {MOST_KEYS} keys, but was given {len(given)}")
    if len(given) != len(accepted) or not all(map(isinstance, given, accepted)):
        raise TypeError(f"{kind}() of a store takes ({', '.join(t.__name__ for t in accepted)}), "
                        f"but was given ({', '.join(type(value).__name__ for value in given)})")


def encode_part(part, is_nested: bool) -> bytes:
    if isinstance(part, str):
        kind, data = b"s", part.encode()
    elif isinstance(part, bytes):
        kind, data = b"b", part
    elif part is None:
        kind, data = b"n", b""
    elif isinstance(part, bool):
        kind, data = b"t", b"\1" if part else b"\0"
    elif isinstance(part, int):
        if not -1 << 63 <= part < 1 << 63:
            raise ValueError("an integer in a store must fit 64 bits, but one of "
                             f"{part.bit_length()} bits was given")
        kind, data = b"i", INTEGER.pack(part)
    elif isinstance(part, (list, tuple)) and not is_nested:
        kind, data = b"l", encode_parts(part, True)
    else:
        raise TypeError("a message of a store holds text, bytes, integers, truth values, None and lists of them, not "
                        f"{'a list in a list' if isinstance(part, (list, tuple)) else type(part).__name__}")
    return PART.pack(kind, len(data)) + data


def encode_parts(parts, is_nested: bool) -> bytes:
    return b"".join((COUNT.pack(len(parts)), *(encode_part(part, is_nested) for part in parts)))


def encode(parts) -> bytes:
    """The message of some parts.  ValueError for one of more than ``LIMIT`` bytes."""
    data = encode_parts(parts, False)
    if len(data) > LIMIT:
        raise ValueError(f"a message of a store has at most {LIMIT} bytes, but {len(data)} were given")
    return data


def decode(data: bytes, is_nested: bool = False, most: int = LIMIT) -> list:
    """Return the parts of a message, ``most`` at most.  ValueError for an invalid one."""
    try:
        (count,), at, parts = COUNT.unpack_from(data), COUNT.size, []
        if count > most:
            raise ValueError(f"a message has {count} parts, but at most {most} are accepted")
        for _ in range(count):
            kind, length = PART.unpack_from(data, at)
            at += PART.size + length
            if at > len(data):
                raise ValueError("a part of a message ends after the message")
            parts.append(decode_part(kind, data[at - length:at], is_nested))
    except struct.error as error:
        raise ValueError(f"a message of a store ends early: {error}") from None
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow the last part of a message")
    return parts


def decode_question(data: bytes) -> tuple:
    """Return (kind, seconds it may wait, arguments) of a client's message.  ValueError or TypeError for an invalid
    request; no request has a list."""
    parts = decode(data, True, MOST_KEYS + 2)
    if len(parts) < 2 or type(parts[1]) is not int:
        raise ValueError("a question begins with its kind and the milliseconds that it may wait")
    kind, limit, *given = parts
    check_question(kind, given)
    return kind, limit / 1000, given


def decode_part(kind: bytes, data: bytes, is_nested: bool):
    if kind == b"s":
        return data.decode()
    if kind == b"b":
        return data
    if kind == b"n" and not data:
        return None
    if kind == b"t" and len(data) == 1:
        return data != b"\0"
    if kind == b"i":
        return INTEGER.unpack(data)[0]
    if kind == b"l" and not is_nested:
        return decode(data, True)
    raise ValueError(f"a message of a store has no part of kind {kind!r} with {len(data)} bytes here")


def frame(parts) -> bytes:
    """A message after its length."""
    data = encode(parts)
    return COUNT.pack(len(data)) + data


def frame_length(header) -> int:
    """Return the length in a message's header.  ValueError if it exceeds ``LIMIT``."""
    length, = COUNT.unpack_from(header)
    if length > LIMIT:
        raise ValueError(f"a message of a store has at most {LIMIT} bytes, but one of {length} is announced")
    return length
