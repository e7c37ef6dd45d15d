"""Pictures of a machine for people: tree, table, SVG, PNG and HTML.

Each module takes a ``Machine`` and gives lines, text or bytes; none of them prints or reads.
"""
