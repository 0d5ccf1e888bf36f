# SPDX-License-Identifier: Apache-2.0
"""Sans-IO transport of one live connection: handshake, lanes, batches, queues and timers.

The package uses no clock, socket, thread or source of randomness. `now`, secrets and received bytes are arguments. Bytes to
send, events and the next timeout are results. `docs/design/transport.md` shows the state machine.
"""
