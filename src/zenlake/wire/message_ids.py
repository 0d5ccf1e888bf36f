# SPDX-License-Identifier: Apache-2.0
"""Numbers of the wire format that several modules need: message ids (the low five bits of a header), extensions, QoS bits."""

import cython

if not cython.compiled:  # compiled: constants of C, in the .pxd
    Z = 0x80  # bit of every header: extensions follow
    KIND = 0x1F  # the bits of these ids

    # Transport messages
    TRANSPORT_OAM = 0x00
    INIT = 0x01
    OPEN = 0x02
    CLOSE = 0x03
    KEEP_ALIVE = 0x04
    FRAME = 0x05
    FRAGMENT = 0x06
    JOIN = 0x07

    # Network messages, inside a FRAME
    NETWORK = 0x19  # the lowest id
    INTEREST = 0x19
    RESPONSE_FINAL = 0x1A
    RESPONSE = 0x1B
    REQUEST = 0x1C
    PUSH = 0x1D
    SENDERS = 0x40  # header bits: M = the sender declared the key's id, N = a suffix follows
    SUFFIX = 0x20
    DECLARE = 0x1E
    OAM = 0x1F

    # Data messages: the bodies of PUSH, REQUEST and RESPONSE, with a separate id space
    PUT = 0x01
    ENCODED = 0x40  # header bits: E = an encoding follows, T = a timestamp follows
    STAMPED = 0x20
    DEL = 0x02
    QUERY = 0x03
    REPLY = 0x04
    ERR = 0x05

    # The bodies of DECLARE, with a separate id space: even ids declare, odd ids undeclare
    D_KEYEXPR = 0x00
    U_KEYEXPR = 0x01
    D_SUBSCRIBER = 0x02
    U_SUBSCRIBER = 0x03
    D_QUERYABLE = 0x04
    U_QUERYABLE = 0x05
    D_TOKEN = 0x06
    U_TOKEN = 0x07
    D_FINAL = 0x1A

    # Extensions: header bytes without Z. ENC is the form of the value: nothing, a number, or bytes.
    ENC = 0x60
    ENC_UNIT = 0x00
    ENC_Z64 = 0x20
    ENC_ZBUF = 0x40
    EXT_QOS = 0x21  # of network messages
    EXT_TIMESTAMP = 0x42
    EXT_NODE_ID = 0x33
    EXT_STACK = 0x47
    EXT_SOURCE = 0x41  # of data messages
    EXT_SHM = 0x12  # mandatory: a node without support must refuse the message
    EXT_PUT_ATTACHMENT = 0x43
    EXT_DEL_ATTACHMENT = 0x42

    # The bits of the value of EXT_QOS
    QOS_PRIORITY = 0x07
    QOS_BLOCK = 0x08
    QOS_EXPRESS = 0x10
    QOS_BLOCK_FIRST = 0x20
    QOS_BLOCKING = 0x28  # either
    QOS_DEFAULT = 0x05  # without the extension: priority data, drop
    QOS_CONTROL = 0x08  # of declarations: priority control, block

    END = -2  # returned by a reader at the end
