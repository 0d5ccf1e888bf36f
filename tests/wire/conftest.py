# SPDX-License-Identifier: Apache-2.0
from hypothesis import settings

settings.register_profile("wire", deadline=None)  # a busy machine is not a bug
settings.load_profile("wire")
