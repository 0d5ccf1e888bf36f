# The numbers of ids.py as constants of C, which cost no memory access.

cpdef enum:
    Z = 0x80
    TRANSPORT_OAM = 0x00
    INIT = 0x01
    OPEN = 0x02
    CLOSE = 0x03
    KEEP_ALIVE = 0x04
    FRAME = 0x05
    FRAGMENT = 0x06
    JOIN = 0x07
    NETWORK = 0x19
    INTEREST = 0x19
    RESPONSE_FINAL = 0x1A
    RESPONSE = 0x1B
    REQUEST = 0x1C
    PUSH = 0x1D
    DECLARE = 0x1E
    OAM = 0x1F
    PUT = 0x01
    DEL = 0x02
    QUERY = 0x03
    REPLY = 0x04
    ERR = 0x05
    D_KEYEXPR = 0x00
    U_KEYEXPR = 0x01
    D_SUBSCRIBER = 0x02
    U_SUBSCRIBER = 0x03
    D_QUERYABLE = 0x04
    U_QUERYABLE = 0x05
    D_TOKEN = 0x06
    U_TOKEN = 0x07
    D_FINAL = 0x1A
    END = -2
