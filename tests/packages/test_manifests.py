"""Manifests that no package has are refused when the package is opened."""
import io
import json
import zipfile

import pytest

from rushlight._src.packages.archive import BadPackage, INTERFACE, Package

MANIFEST = {"version": INTERFACE, "target": "x", "sha256": "", "instructions": [], "levels": [], "checks": [],
            "inputs": [], "outputs": [], "constants": [], "varying": [], "threads": 1,
            "call": {"in_spec": "[]", "out_spec": "3", "names": [], "arguments": [], "results": []}}


@pytest.mark.parametrize("changed, told", [({"instructions": [[1]]}, "instructions"), ({"levels": [1]}, "levels"),
                                           ({}, "how the model is called")])
def test_manifests_of_other_types_are_refused(changed, told):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("package/archive_format", "pt2")
        archive.writestr("package/data/aotinductor/m/m.json", json.dumps({**MANIFEST, **changed}))
    with pytest.raises(BadPackage, match=told):
        Package(file)
