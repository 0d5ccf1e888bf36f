# SPDX-License-Identifier: Apache-2.0
"""Fast path: stage publications of the common layout in one pass.

Most publications are a PUSH with an optional QoS, and a PUT with a current timestamp. `Push.read` decodes every layout,
field by field, into a record that `SamplesBuilder` stages. This module stages the common layout directly from the bytes, in a
third of the time. It stops before the first uncommon, truncated or invalid message, which `Push.read` decodes or
rejects. It must not accept or interpret a message differently: tests/columns/test_push_fast_path.py compares both on valid and
invalid messages.

Safety: reads are not bounds-checked. The caller guarantees AHEAD readable bytes, and no more are read between two
checks. The end of a batch is therefore read from a copy with as many zeros behind it.
"""

import cython

if cython.compiled:
    import cython.cimports.zenlake.wire.message_ids as message_ids
    from cython.cimports.zenlake.columns.push_template import has_timestamp, match_template
    from cython.cimports.zenlake.columns.samples_builder import MAX_STAGED_BYTES, SamplesBuilder
    from cython.cimports.zenlake.wire.raw_memory import copy, eight_bytes, short_vle
else:
    from zenlake.columns.push_template import has_timestamp, match_template
    from zenlake.columns.samples_builder import MAX_STAGED_BYTES, SamplesBuilder
    from zenlake.wire import message_ids
    from zenlake.wire.raw_memory import eight_bytes, short_vle

    # Compiled: C constants, documented in the .pxd.
    AHEAD = 48
    TAIL = 192
    OTHER = -1
    QOS = 0x21
    SOURCE = 0x41
    ATTACHMENT = 0x43
    DEFAULT_QOS = 0x05

# The highest bit of each byte: continuation of a VLE, or not ASCII in a text.
HIGHEST = cython.declare(cython.ulonglong, 0x8080808080808080)


def decode_push(samples, data, at, end, direction, most):
    """Stage at most `most` common messages from `at` on. Return the offset of the first other message."""
    first: cython.Py_ssize_t = samples.row - samples.gathered
    i: cython.Py_ssize_t = first
    last: cython.Py_ssize_t = min(samples.most, first + most)
    beyond: cython.Py_ssize_t
    lead: cython.Py_ssize_t
    begin: cython.Py_ssize_t = at
    crowded: cython.Py_ssize_t = min(end, at + MAX_STAGED_BYTES - samples.bytes)
    looked_at: cython.p_const_uchar = data
    safe: cython.Py_ssize_t = end - AHEAD
    tail = cython.declare(cython.uchar[240])  # TAIL + AHEAD
    samples.payloads.noted = True
    samples.stamps.noted = True
    while i < last and at < crowded:
        beyond = stage_push(samples, i, looked_at, at, end, safe, direction)
        if beyond != OTHER:
            samples.notes.message[i] = beyond - at
            lead = samples.sized - at
            i += 1
            if lead == samples.lead:  # the layout of the previous one, so the next may have it too
                i = match_template(samples, i, last, looked_at, at, lead, end, min(crowded, safe + AHEAD - lead - 16))
            samples.lead = lead
            at = samples.notes.payload.at[i - 1] + samples.notes.payload.size[i - 1]
        elif safe < end and end - at <= TAIL:
            if cython.compiled:
                looked_at = copy_tail(tail, data, at, end) - at
            else:
                looked_at = bytes(data[:end]) + bytes(AHEAD)
            safe = end
        else:
            samples.forget(i, i + 1)  # fields that were staged before the message turned out to be uncommon
            break
    samples.row += i - first
    samples.bytes += at - begin  # an estimate, more than their payloads
    samples.data = data
    return at


def decode_push_messages(messages, samples, count, index, opener, acceptor):
    """Write rows of `messages` for the last staged ones, numbered from `index` on."""
    row: cython.Py_ssize_t = messages.row
    i: cython.Py_ssize_t = samples.row - samples.gathered - count
    scope: cython.int
    messages.row = row + count
    messages.index.count(row, row + count, index)
    messages.types.fill(messages.type, row, row + count, message_ids.PUSH)
    messages.bodies.fill(messages.body, row, row + count, message_ids.PUT)
    messages.unknown_exts.fill(row, row + count, 0)
    while row < messages.row:
        scope = samples.notes.scope[i]
        if scope >= 0:
            messages.put_key(row, opener, scope, samples.data, samples.notes.suffix.at[i], samples.notes.suffix.size[i])
        else:
            messages.put_key(
                row, acceptor, -scope, samples.data, samples.notes.suffix.at[i], samples.notes.suffix.size[i]
            )
        messages.size_column.put(row, samples.notes.message[i])
        messages.payload_size.put(row, samples.notes.payload.size[i])
        messages.qos.put(row, samples.notes.manner[i])
        row += 1
        i += 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def copy_tail(
    tail: cython.p_uchar, data: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.p_const_uchar:
    """Copy the rest of a batch, with zeros behind it."""
    i: cython.Py_ssize_t
    copy(tail, 0, data, at, end - at)
    for i in range(end - at, end - at + AHEAD):
        tail[i] = 0
    return tail


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_push(
    samples: SamplesBuilder,
    i: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    safe: cython.Py_ssize_t,
    direction: cython.bint,
) -> cython.Py_ssize_t:
    """Scan a PUSH. Each function returns the offset of the next field, or OTHER. Up to `safe`, AHEAD bytes are readable."""
    if at > safe or data[at] & message_ids.KIND != message_ids.PUSH:
        return OTHER
    header: cython.int = data[at]
    scope: cython.longlong = short_vle(data, at + 1)
    if scope < 0 or scope >> 3 > 0xFFFF:
        return OTHER
    at += 1 + (scope & 7)
    acceptors: cython.bint = (direction != 0) == (header & message_ids.SENDERS != 0)
    samples.notes.scope[i] = -(scope >> 3) if acceptors else scope >> 3
    if header & message_ids.SUFFIX:
        at = stage_suffix(samples, i, data, at, end)
        if at == OTHER or at > safe:
            return OTHER
    if header & message_ids.Z:
        if data[at] != QOS or data[at + 1] >= 0x80:
            return OTHER
        samples.notes.manner[i] = data[at + 1]
        at += 2
    else:
        samples.notes.manner[i] = DEFAULT_QOS
    if data[at] & message_ids.KIND != message_ids.PUT:
        return OTHER
    header = data[at]
    at += 1
    if header & message_ids.STAMPED:
        at = stage_timestamp(samples, i, data, at)
        if at == OTHER:
            return OTHER
    else:
        samples.notes.ntp64[i] = 0
        samples.notes.stamp.size[i] = -1
    samples.notes.encoding[i] = 0
    if header & (message_ids.ENCODED | message_ids.Z):
        at = stage_body(samples, i, data, at, end, safe, header)
        if at == OTHER:
            return OTHER
    samples.sized = at
    size: cython.longlong = short_vle(data, at)
    if size < 0:
        return OTHER
    at += size & 7
    size >>= 3
    if size > end - at:
        return OTHER
    samples.notes.payload.at[i] = at
    samples.notes.payload.size[i] = size
    return at + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_suffix(
    samples: SamplesBuilder,
    i: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    size: cython.longlong = short_vle(data, at)
    if size < 0:
        return OTHER
    at += size & 7
    size >>= 3
    if size > 0xFFFF or size > end - at:
        return OTHER
    samples.suffixes.noted = True
    samples.notes.suffix.at[i] = at
    samples.notes.suffix.size[i] = size
    beyond: cython.Py_ssize_t = at + size
    while at + 8 <= beyond:
        if eight_bytes(data, at) & HIGHEST:  # not ASCII: check for UTF-8
            return OTHER
        at += 8
    while at < beyond:
        if data[at] >= 0x80:
            return OTHER
        at += 1
    return beyond


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_timestamp(
    samples: SamplesBuilder, i: cython.Py_ssize_t, data: cython.p_const_uchar, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Scan a timestamp of nine VLE bytes (until 2106) and its node id."""
    word: cython.ulonglong = eight_bytes(data, at)
    size: cython.int = data[at + 9]
    if word & HIGHEST != HIGHEST or size < 1 or size > 16 or data[at + 10] == 0:
        return OTHER
    samples.notes.ntp64[i] = has_timestamp(word, eight_bytes(data, at + 1))
    samples.notes.stamp.at[i] = at + 10
    samples.notes.stamp.size[i] = size
    return at + 10 + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_body(
    samples: SamplesBuilder, i: cython.Py_ssize_t, data: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t,
    safe: cython.Py_ssize_t, header: cython.int,
) -> cython.Py_ssize_t:  # fmt: skip
    """Scan encoding, extensions, or both."""
    if header & message_ids.ENCODED:
        at = stage_encoding(samples, i, data, at)
    if at == OTHER or at > safe:
        return OTHER
    return stage_extensions(samples, i, data, at, end, safe) if header & message_ids.Z else at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_encoding(
    samples: SamplesBuilder, i: cython.Py_ssize_t, data: cython.p_const_uchar, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    word: cython.longlong = short_vle(data, at)
    if word < 0:
        return OTHER
    at += word & 7
    word >>= 3
    samples.notes.encoding[i] = word >> 1
    if word & 1:
        if data[at] >= 0x80:
            return OTHER
        samples.schemas.noted = True
        samples.notes.schema.at[i] = at + 1
        samples.notes.schema.size[i] = data[at]
        at += 1 + data[at]
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_extensions(
    samples: SamplesBuilder, i: cython.Py_ssize_t, data: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t,
    safe: cython.Py_ssize_t,
) -> cython.Py_ssize_t:  # fmt: skip
    """Scan source and attachment."""
    header: cython.int = message_ids.Z
    size: cython.longlong
    while header & message_ids.Z:
        header = data[at]
        size = short_vle(data, at + 1)
        if size < 0:
            return OTHER
        at += 1 + (size & 7)
        size >>= 3
        if size > end - at:
            return OTHER
        if header & 0x7F == SOURCE:
            if stage_source(samples, i, data, at) != at + size:
                return OTHER
        elif header & 0x7F == ATTACHMENT:
            samples.attachments.noted = True
            samples.notes.attachment.at[i] = at
            samples.notes.attachment.size[i] = size
        else:
            return OTHER
        at += size
        if at > safe:
            return OTHER
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_source(
    samples: SamplesBuilder, i: cython.Py_ssize_t, data: cython.p_const_uchar, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    size: cython.int = 1 + (data[at] >> 4)
    eid: cython.longlong = short_vle(data, at + 1 + size)
    if data[at + 1] == 0 or eid < 0:
        return OTHER
    samples.sources.noted = True
    samples.notes.source.at[i] = at + 1
    samples.notes.source.size[i] = size
    at += 1 + size + (eid & 7)
    sn: cython.longlong = short_vle(data, at)
    if sn < 0:
        return OTHER
    samples.notes.eid[i] = eid >> 3
    samples.notes.sn[i] = sn >> 3
    return at + (sn & 7)
