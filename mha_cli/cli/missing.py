"""Packages that mha declares and that are not installed, because it was installed without all it uses."""

import re

PACKAGES = {"sklearn": "scikit-learn", "ruamel": "ruamel-yaml"}
"""Packages by the module that is imported from them, where their names differ by more than - and _."""


def missing_package(error: ModuleNotFoundError) -> str:
    """One line on the package that is missing and how to install it; empty if mha does not declare it."""
    from importlib.metadata import PackageNotFoundError, requires  # slow

    module = (error.name or "").partition(".")[0]
    package = PACKAGES.get(module, module.replace("_", "-"))
    try:
        declared = requires("mha") or []
    except PackageNotFoundError:  # a checkout that is not installed
        declared = []
    for requirement in declared:
        requirement = requirement.partition(";")[0]
        name = re.split(r"[^\w.-]", requirement)[0]
        if re.sub(r"[_.]", "-", name).lower() == package:
            way_out = f"pip install '{requirement}', or all of mha: pip install . in your copy of its repository"
            return f"this needs {name}, which is not installed; {way_out}"
    return ""
