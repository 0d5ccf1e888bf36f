# SPDX-License-Identifier: Apache-2.0
"""Hand-made bytes that a router of eclipse-zenoh received: where its reaction depends on decoding, our reader agrees.

Each of the 93 cases is in exactly one table below. A router that cannot decode drops the connection (or, in the
handshake, answers CLOSE INVALID): `tail` says "closed by router". It may close for other reasons too, which are not the
reader's.
"""

import pytest

from tests.vectors import batches, rows
from zenlake.errors import CloseReason, DecodeError
from zenlake.wire.batch_reader import messages
from zenlake.wire.framing import Splitter

# The reader refuses one of the case's batches: this field at this byte.
REFUSES = {
    "unknown_mandatory_ext": ("INIT.exts", 19),
    "whatami_3": ("INIT.whatami", 2),
    "push_ext_qos_M1": ("PUSH.exts", 8),
    "push_unknown_mandatory_ext": ("PUSH.exts", 8),
    "put_ts_max_10byte_leb128": ("PUT.payload", 20),  # nine bytes are the time; the next field is then misread
    "unknown_network_id_0x18": ("batch.header", 2),
    "unknown_transport_id_0x08": ("batch.header", 0),
}

# The reader accepts what a stricter or looser one might not.
ACCEPTS = {
    "no_ext_no_size": "INIT without sizes and without extensions",
    "unknown_optional_ext": "an unknown optional extension of INIT",
    "res_64_batch_2048": "the resolution 0b11",
    "res_8_batch_300": "the resolution 0b00",
    "put_plain_sn0": "sequence number 0",
    "put_map_receiver_scope0": "M=0 with scope 0",
    "no_ts_ext_prio_ext_M0": "FRAME's priority with M=0: another, unknown extension",
    "prio_ext_M1_prio1": "FRAME's priority with M=1",
    "push_unknown_optional_ext": "an unknown optional extension of PUSH",
    "put_ts_max_9byte_vle": "2**64 - 1 in nine bytes",
    "put_ts_2p63": "2**63: the ninth byte is raw",
    "nonminimal_vle_len": "numbers with needless continuation bytes",
    "transport_oam": "an OAM of the transport",
    "network_oam_unknown_id": "an OAM with an unknown id",
    "two_frames_one_batch": "FRAME, FRAME, KEEP_ALIVE in one batch",
    "keepalive_with_ext": "an unknown optional extension of KEEP_ALIVE",
    "declare_default_qos_data_lane": "DECLARE without QoS",
    "query_budget_1_two_replies": "the budget extension",
    "sub_undeclare_with_wire_expr_ext": "the key extension of U_SUBSCRIBER",
    "response_with_scope0_noname": "RESPONSE without a key",
    "query_parameters_and_reply_consolidation_byte": "parameters, and REPLY's consolidation",
    "express_id_16bit_max": "the key id 65535",
    "client_sends_declare_final": "D_FINAL from a client",
    "batch_body_negotiated_minus_2": "a batch that fills the agreed size with its prefix",
}

# The splitter refuses the length: it exceeds the negotiated size.
OVERSIZED = {"batch_larger_than_negotiated", "batch_body_equal_to_negotiated"}

# The bytes are valid. The state of both ends decides (session/).
SESSION = {
    "version_8", "version_10", "patch_2", "bad_cookie", "frame_before_open", "put_unknown_scope",
    "sn_out_of_range_2p28", "sn_wrap_to_0",
    "open_sn_out_of_range", "sn_gap_and_replay", "noqos_prio_frame", "noqos_negotiated_but_prio_frame",
    "fragments_first_marker", "fragments_no_first_marker_patch1", "fragments_no_marker_patch0", "fragment_drop_marker",
    "fragment_gap", "fragment_interleaved_with_frame", "lease_500ms_expiry", "declare_keyexpr_then_use",
    "declare_keyexpr_redefine", "declare_keyexpr_scoped", "close_session_flag", "router_fragments_to_300_batch",
    "compress_and_lowlatency_offer", "same_zid_twice", "zid_of_router",
}  # fmt: skip

# The bytes are valid. The other nodes decide (network/).
ROUTING = {
    "query_and_final", "query_no_match_target_all", "interest_all_current_unrestricted", "interest_future_only_subs",
    "interest_aggregate_subs", "interest_unrestricted_S_current", "interest_unrestricted_S_currentfuture",
    "interest_unrestricted_Q_current", "interest_unrestricted_Q_currentfuture", "interest_unrestricted_T_current",
    "interest_unrestricted_T_currentfuture", "interest_unrestricted_K_current", "interest_unrestricted_K_currentfuture",
    "interest_unrestricted_KSQT_current", "interest_unrestricted_KSQT_currentfuture",
    "interest_restricted_SQT_currentfuture", "interest_restricted_KSQT_currentfuture",
    "interest_restricted_K_currentfuture", "interest_restricted_ASQT_currentfuture",
    "interest_restricted_S_current", "interest_restricted_Q_current", "interest_restricted_SQT_current",
    "query_raw_queryable_never_answers_timeout_1s", "query_no_timeout_ext_queryable_disconnects",
    "best_matching_complete_vs_incomplete", "best_matching_only_incomplete", "query_replies_two_queryables_final_once",
    "query_own_queryable_not_looped", "two_matching_subs_one_delivery", "token_vanishes_on_disconnect",
    "put_timestamp_future_1h", "two_tokens_same_key", "two_subs_same_key_from_two_clients",
}  # fmt: skip

RESULTS = {row["result"]["case"]: row["result"] for row in rows("probe") if "result" in row}


def closed(case):
    return "closed by router" in RESULTS[case]["tail"]


def hand_made(case):
    return [batch for batch in batches("probe") if batch.flow[0] == f"probe_{case}" and batch.flow[2] == "raw->router"]


def test_every_case_is_in_one_table():
    tables = [set(REFUSES), set(ACCEPTS), OVERSIZED, SESSION, ROUTING]
    assert sum(map(len, tables)) == len(set().union(*tables)) == 93
    assert set().union(*tables) == set(RESULTS)


@pytest.mark.parametrize("case", REFUSES)
def test_refused_by_the_real_node_and_by_our_reader(case):
    assert closed(case)
    assert not RESULTS[case]["samples"]
    errors = []
    for batch in hand_made(case):
        try:
            batch.messages()
        except DecodeError as error:
            errors.append(error)
    assert [(error.field, error.at, error.reason) for error in errors] == [(*REFUSES[case], CloseReason.INVALID)]


@pytest.mark.parametrize("case", ACCEPTS)
def test_accepted_by_the_real_node_and_by_our_reader(case):
    assert not closed(case)
    assert hand_made(case)
    for batch in hand_made(case):
        assert batch.messages()


@pytest.mark.parametrize("case", sorted(SESSION | ROUTING))
def test_the_bytes_of_the_other_cases_are_well_formed(case):
    assert hand_made(case)
    for batch in hand_made(case):
        assert batch.messages()


@pytest.mark.parametrize("case", sorted([*OVERSIZED, "batch_body_negotiated_minus_2"]))
def test_the_agreed_size_counts_the_prefix(case):
    agreed = next(messages(batch.data)[0] for batch in batches("probe") if batch.flow[0] == f"probe_{case}")
    splitter = Splitter(agreed.batch_size)
    last = hand_made(case)[-1].data
    splitter.feed(len(last).to_bytes(2, "little") + last)
    if case in OVERSIZED:
        assert closed(case)
        with pytest.raises(DecodeError, match="exceeds the negotiated limit"):
            next(splitter)
    else:
        assert next(splitter) == last
