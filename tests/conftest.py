"""Settings for all tests."""

import os

from hypothesis import Phase, settings

settings.register_profile("default", settings(deadline=None))
settings.register_profile("noshrink", settings(deadline=None, phases=(Phase.explicit, Phase.generate)))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
