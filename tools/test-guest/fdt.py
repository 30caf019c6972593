"""A flattened device tree: read, changed, written. Source: the Devicetree Specification 0.4,
chapter 5."""

import struct


class Node:
    """Properties as bytes, by name; nodes below, by name."""

    def __init__(self, properties=None, nodes=None):
        self.properties, self.nodes = properties or {}, nodes or {}

    def all(self):
        yield self
        for n in self.nodes.values():
            yield from n.all()

    def find(self, compatible):
        """The first node that says so."""
        return next(
            n
            for n in self.all()
            if compatible.encode() in n.properties.get("compatible", b"").split(b"\0")
        )

    def phandle(self):
        """The highest in use."""
        return max(
            (
                int.from_bytes(n.properties["phandle"], "big")
                for n in self.all()
                if "phandle" in n.properties
            ),
            default=0,
        )


def cells(*words):
    return b"".join(w.to_bytes(4, "big") for w in words)


def text(*strings):
    return b"".join(s.encode() + b"\0" for s in strings)


def read(blob):
    """The root."""
    word = lambda at: int.from_bytes(blob[at : at + 4], "big")
    name_at = lambda at: blob[at : blob.index(b"\0", at)].decode()
    structure, strings = word(8), word(12)
    root = Node()
    path, at = [root], structure
    while (token := word(at)) != 9:
        at += 4
        if token == 1:
            name = name_at(at)
            at += len(name) + 4 & ~3
            path.append(path[-1].nodes.setdefault(name, Node()))
        elif token == 2:
            path.pop()
        elif token == 3:
            length, name = word(at), name_at(strings + word(at + 4))
            path[-1].properties[name] = blob[at + 8 : at + 8 + length]
            at += 8 + (length + 3 & ~3)
    return root.nodes[""]


def write(root):
    """The blob, without reserved memory."""
    names, offsets = b"", {}
    out = bytearray()
    padded = lambda b: b + bytes(-len(b) % 4)

    def put(name, node):
        nonlocal names, out
        out += cells(1) + padded(name.encode() + b"\0")
        for key, value in node.properties.items():
            if key not in offsets:
                offsets[key] = len(names)
                names += key.encode() + b"\0"
            out += cells(3, len(value), offsets[key]) + padded(value)
        for child in node.nodes.items():
            put(*child)
        out += cells(2)

    put("", root)
    out += cells(9)
    header, reserved = 40, bytes(16)
    structure = header + len(reserved)
    strings = structure + len(out)
    total = strings + len(names)
    head = struct.pack(
        ">10I", 0xD00DFEED, total, structure, strings, header, 17, 16, 0, len(names), len(out)
    )
    return head + reserved + bytes(out) + names
