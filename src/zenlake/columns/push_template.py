# SPDX-License-Identifier: Apache-2.0
"""Template comparison: stage publications that have the layout of the previous one.

A publisher usually sends the same fields with the same sizes. Eight bytes at a time are compared with a valid message
(the model), under a mask of the bits that may differ. If they match, the fields have the same offsets. If all payloads
have one size, which is also compared, the start of each message is known in advance. Other messages are decoded on the
normal path.
"""

import cython

if cython.compiled:
    from cython.cimports.zenlake.columns.samples_builder import SamplesBuilder
    from cython.cimports.zenlake.wire.raw_memory import eight_bytes, fetch_ahead, short_vle
else:
    from zenlake.columns.samples_builder import SamplesBuilder, as_signed
    from zenlake.wire.raw_memory import eight_bytes, fetch_ahead, join_sevens, short_vle

if not cython.compiled:  # compiled: C constants and an inline function, in the .pxd
    MAX_TEMPLATE = 120  # maximum bytes of a message before its payload
    SCOPE = 1  # offset of the key id
    SOON = 2048  # prefetch distance in bytes

    def has_timestamp(first, last):
        """Decode a timestamp of nine VLE bytes, from its first and last eight bytes."""
        return as_signed(join_sevens(first) | last & 0xFF << 56)


def match_template(samples, first, last, data, model, lead, end, bound):
    """Stage the messages behind the model that match it, in rows from `first` on. Return the first row that is not staged.

    The model starts at `model`, is the last staged message, and has `lead` bytes before the size of its payload.

    Safety: a message may start before `bound`; the caller guarantees `lead` + 16 readable bytes from there.
    """
    m: cython.Py_ssize_t = first - 1
    i: cython.Py_ssize_t = first
    at: cython.Py_ssize_t = samples.notes.payload.at[m] + samples.notes.payload.size[m]
    if lead > MAX_TEMPLATE or i >= last or at >= bound:
        return i
    masks = cython.declare(cython.uchar[128])  # LONGEST, and one word more
    if not cython.compiled:
        masks = bytearray(128)
    words: cython.Py_ssize_t = mask_fields(masks, samples, m, data, model, lead)
    beyond: cython.Py_ssize_t
    size: cython.longlong
    scope: cython.longlong
    # Of the model
    first_mask: cython.ulonglong = eight_bytes(masks, 0)
    next_mask: cython.ulonglong = eight_bytes(masks, 8)
    first_word: cython.ulonglong = eight_bytes(data, model) & first_mask
    next_word: cython.ulonglong = eight_bytes(data, model + 8) & next_mask
    scope_size: cython.Py_ssize_t = number_size(data, model + SCOPE)
    node: cython.Py_ssize_t = 0  # offset of a byte that is not zero: headers and ids never are
    clock: cython.Py_ssize_t = 0  # offset of its timestamp
    if samples.notes.stamp.size[m] > 0:
        node = samples.notes.stamp.at[m] - model
        clock = node - 10
    more: cython.bint = (
        samples.notes.suffix.size[m] & samples.notes.schema.size[m] & samples.notes.source.size[m]
        & samples.notes.attachment.size[m]
    ) >= 0  # fmt: skip

    stride: cython.Py_ssize_t = at - model
    size_mask: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << 8 * number_size(data, model + lead)) - 1
    size_word: cython.ulonglong = eight_bytes(data, model + lead) & size_mask
    even: cython.Py_ssize_t = i  # up to here there is room for messages of the same size
    if words == 2 and scope_size <= 2 and not more and stride <= end - at:
        even = min(last, i + (min(bound - 1, end - stride) - at) // stride + 1)
    while i < even:
        fetch_ahead(data, at + SOON)
        if eight_bytes(data, at) & first_mask != first_word or eight_bytes(data, at + 8) & next_mask != next_word:
            break
        if eight_bytes(data, at + lead) & size_mask != size_word or data[at + node] == 0:
            break
        scope = data[at + SCOPE]
        if scope_size == 2:
            scope = scope & 0x7F | data[at + SCOPE + 1] << 7
        samples.notes.scope[i] = scope
        samples.notes.ntp64[i] = eight_bytes(data, at + clock)
        samples.notes.time[i] = eight_bytes(data, at + clock + 1)
        at += stride
        i += 1
    match_equal_length(samples, m, i, stride)

    while i < last and at < bound:
        fetch_ahead(data, at + SOON)
        if eight_bytes(data, at) & first_mask != first_word or eight_bytes(data, at + 8) & next_mask != next_word:
            break
        if data[at + node] == 0 or (words > 2 and differs(data, at, model, masks, words)):
            break
        scope = data[at + SCOPE]
        if scope_size > 1:
            scope = short_vle(data, at + SCOPE) >> 3
            if scope > 0xFFFF:
                break
        if more and not match_run(samples, i, m, at - model, data):
            break
        beyond = at + lead + 1
        size = data[beyond - 1]
        if size >= 0x80:
            size = short_vle(data, beyond - 1)
            beyond += (size & 7) - 1
            size >>= 3
        if size < 0 or size > end - beyond:
            break
        samples.notes.scope[i] = scope
        samples.notes.ntp64[i] = eight_bytes(data, at + clock)
        samples.notes.time[i] = eight_bytes(data, at + clock + 1)
        samples.notes.stamp.at[i] = at + node
        samples.notes.payload.at[i] = beyond
        samples.notes.payload.size[i] = size
        samples.notes.message[i] = beyond + size - at
        at = beyond + size
        i += 1
    stage_shared(samples, m, i)
    return i


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def match_equal_length(
    samples: SamplesBuilder, m: cython.Py_ssize_t, last: cython.Py_ssize_t, stride: cython.Py_ssize_t
) -> cython.void:
    """Fill the offsets of messages with the model's length.

    Performance: one array at a time, so that the compiler can vectorise.
    """
    i: cython.Py_ssize_t
    payload: cython.longlong = samples.notes.payload.at[m]
    stamp: cython.longlong = samples.notes.stamp.at[m]
    size: cython.longlong = samples.notes.payload.size[m]
    for i in range(m + 1, last):
        payload += stride
        samples.notes.payload.at[i] = payload
        samples.notes.payload.size[i] = size
        samples.notes.message[i] = stride
    for i in range(m + 1, last):
        stamp += stride
        samples.notes.stamp.at[i] = stamp


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stage_shared(samples: SamplesBuilder, m: cython.Py_ssize_t, last: cython.Py_ssize_t) -> cython.void:
    """Fill the fields that all messages share with the model, and their timestamps."""
    i: cython.Py_ssize_t
    node: cython.longlong = samples.notes.stamp.size[m]
    manner: cython.longlong = samples.notes.manner[m]
    encoding: cython.longlong = samples.notes.encoding[m]
    for i in range(m + 1, last):
        samples.notes.manner[i] = manner
        samples.notes.encoding[i] = encoding
        samples.notes.stamp.size[i] = node
    if samples.notes.scope[m] < 0:
        for i in range(m + 1, last):
            samples.notes.scope[i] = -samples.notes.scope[i]
    if node <= 0:
        for i in range(m + 1, last):
            samples.notes.ntp64[i] = 0
        return
    for i in range(m + 1, last):
        samples.notes.ntp64[i] = has_timestamp(samples.notes.ntp64[i], samples.notes.time[i])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def mask_fields(
    masks: cython.p_uchar,
    samples: SamplesBuilder,
    m: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    model: cython.Py_ssize_t,
    lead: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Compute the mask of bits that must be equal. Return the number of words with such bits.

    For a VLE number these are the continuation bits, for a suffix the bits that mark ASCII.
    """
    i: cython.Py_ssize_t
    words: cython.Py_ssize_t = max((lead + 7) >> 3, 2)
    for i in range(lead):
        masks[i] = 0xFF
    for i in range(lead, 8 * words):
        masks[i] = 0
    if samples.notes.scope[m]:
        mask(masks, SCOPE, number_size(data, model + SCOPE), 0x80)
    at: cython.Py_ssize_t = samples.notes.stamp.at[m] - model
    if samples.notes.stamp.size[m] > 0:
        mask(masks, at - 10, 8, 0x80)
        masks[at - 2] = 0
        mask(masks, at, samples.notes.stamp.size[m], 0)
    at = samples.notes.source.at[m] - model
    if samples.notes.source.size[m] > 0:
        mask(masks, at, samples.notes.source.size[m], 0)
        at += samples.notes.source.size[m]
        i = number_size(data, model + at)
        mask(masks, at, i + number_size(data, model + at + i), 0x80)
    mask(masks, samples.notes.suffix.at[m] - model, samples.notes.suffix.size[m], 0x80)
    mask(masks, samples.notes.attachment.at[m] - model, samples.notes.attachment.size[m], 0)
    while words > 2 and eight_bytes(masks, 8 * words - 8) == 0:
        words -= 1
    return words


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def mask(masks: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, bits: cython.uchar) -> cython.void:
    i: cython.Py_ssize_t
    for i in range(at, at + size):
        masks[i] = bits


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def number_size(data: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return short_vle(data, at) & 7


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def differs(
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    model: cython.Py_ssize_t,
    masks: cython.p_const_uchar,
    words: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether the words from the third on differ from the model."""
    differ: cython.ulonglong = 0
    i: cython.Py_ssize_t
    for i in range(2, words):
        differ |= (eight_bytes(data, at + 8 * i) ^ eight_bytes(data, model + 8 * i)) & eight_bytes(masks, 8 * i)
    return differ != 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def match_run(
    samples: SamplesBuilder,
    i: cython.Py_ssize_t,
    m: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    data: cython.p_const_uchar,
) -> cython.bint:
    """Stage the optional fields: key suffix, schema, source, attachment. Return False for an invalid source id."""
    samples.notes.suffix.at[i] = samples.notes.suffix.at[m] + shift
    samples.notes.suffix.size[i] = samples.notes.suffix.size[m]
    samples.notes.schema.at[i] = samples.notes.schema.at[m] + shift
    samples.notes.schema.size[i] = samples.notes.schema.size[m]
    samples.notes.attachment.at[i] = samples.notes.attachment.at[m] + shift
    samples.notes.attachment.size[i] = samples.notes.attachment.size[m]
    at: cython.Py_ssize_t = samples.notes.source.at[m] + shift
    size: cython.Py_ssize_t = samples.notes.source.size[m]
    samples.notes.source.at[i] = at
    samples.notes.source.size[i] = size
    if size > 0:
        if data[at] == 0:
            return False
        eid: cython.longlong = short_vle(data, at + size)
        samples.notes.eid[i] = eid >> 3
        samples.notes.sn[i] = short_vle(data, at + size + (eid & 7)) >> 3
    return True
