"""Checks the frames (id, name, data) of a job, also across disconnected and resumed readers."""


def join(known, frames, after):
    """Joins frames after a cursor to the known ones. Returns the first mismatch or `None`."""
    for number, frame in enumerate(frames, after + 1):
        if frame[0] != number:
            return f"event {frame[0]} follows event {number - 1}"
        if number <= len(known):
            if known[number - 1] != frame:
                return f"event {number} was {known[number - 1]}, is {frame}"
        elif number == len(known) + 1:
            known.append(frame)
    return None


def faults(frames):
    """Checks a whole log: deltas join without a gap, and each call has one result."""
    lengths, results, found = {}, [], []
    for number, name, data in frames:
        if "delta" in data:
            expected = lengths.get(data["id"], 0)
            if data.get("offset", expected) != expected:
                found.append(f"event {number} has offset {data['offset']}, expected {expected}")
            lengths[data["id"]] = expected + len(data["delta"].encode())
        if data.get("type") == "tool_result":
            results.append(data.get("id_ref") or data.get("call_id"))
    if len(results) != len(set(results)):
        found.append(f"a call has two results: {results}")
    return found
