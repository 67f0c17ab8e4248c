"""Prints an SPDX 2.3 document of the Python packages installed below the given prefixes.

    python k8s/sbom.py PREFIX...

The document is in the image, /opt/penstock/share/sbom/penstock.spdx.json. Equal packages give an
equal document: its name is a digest of them, and its time is SOURCE_DATE_EPOCH, else 1970.
"""

import hashlib
import json
import os
import re
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path


def document(prefixes: list[str]) -> dict:
    """Returns the SPDX document of the packages in the prefixes' site-packages."""
    paths = [str(found) for p in prefixes for found in Path(p).glob("lib/python3*/site-packages")]
    found = {one.metadata["Name"].lower(): one for one in metadata.distributions(path=paths)}
    packages = [_package(found[name]) for name in sorted(found)]
    digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
    created = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "penstock image, Python packages",
        "documentNamespace": f"https://spdx.org/spdxdocs/penstock-{digest}",
        "creationInfo": {
            "created": f"{created:%Y-%m-%dT%H:%M:%SZ}",
            "creators": ["Tool: penstock k8s/sbom.py"],
        },
        "packages": packages,
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": package["SPDXID"],
            }
            for package in packages
        ],
    }


def _package(one: metadata.Distribution) -> dict:
    name, version = one.metadata["Name"], one.version
    normal = re.sub(r"[-_.]+", "-", name).lower()
    licence = one.metadata.get("License-Expression")
    return {
        "SPDXID": f"SPDXRef-Package-{normal}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        # Only licence expressions by PEP 639 are SPDX expressions; older packages have free text.
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence or "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:pypi/{normal}@{version}",
            }
        ],
    }


if __name__ == "__main__":
    json.dump(document(sys.argv[1:]), sys.stdout, indent=1)
