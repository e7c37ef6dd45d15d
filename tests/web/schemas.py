"""A small check of JSON against the schemas of the API, as much of JSON Schema as they use."""

TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def faults(value, schema, document, where="$"):
    """What does not agree, one line each. Members that no schema names are faults, too."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return faults(value, document["components"]["schemas"][name], document, where)
    if "anyOf" in schema:
        tries = [faults(value, one, document, where) for one in schema["anyOf"]]
        return [] if [] in tries else min(tries, key=len)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(_is(value, kind) for kind in kinds):
        return [f"{where}: {value!r} is not {kinds}"]
    if isinstance(value, list):
        return [
            fault
            for number, item in enumerate(value)
            for fault in faults(item, schema["items"], document, f"{where}[{number}]")
        ]
    return _members(value, schema, document, where) if isinstance(value, dict) else []


def _is(value, kind):
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def _members(value, schema, document, where):
    found = [f"{where}: no {name}" for name in schema.get("required", []) if name not in value]
    known, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if name in known:
            found += faults(item, known[name], document, f"{where}.{name}")
        elif more is not None:
            found += faults(item, more, document, f"{where}.{name}")
        elif known:
            found.append(f"{where}: {name} is in no schema")
    return found
