#pragma once

// The version of Lockstep, as https://semver.org has it. These numbers are its only home: CMakeLists.txt reads them.

#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 2
#define LOCKSTEP_VERSION_PATCH 0

/// One number for comparisons, 10203 for version 1.2.3: `#if LOCKSTEP_VERSION_NUMBER >= 10203`.
#define LOCKSTEP_VERSION_NUMBER (LOCKSTEP_VERSION_MAJOR * 10000 + LOCKSTEP_VERSION_MINOR * 100 + LOCKSTEP_VERSION_PATCH)

/// The version as text: "1.2.3".
#define LOCKSTEP_VERSION LOCKSTEP_DETAIL_TEXT(LOCKSTEP_VERSION_MAJOR, LOCKSTEP_VERSION_MINOR, LOCKSTEP_VERSION_PATCH)

#define LOCKSTEP_DETAIL_TEXT(major, minor, patch) LOCKSTEP_DETAIL_QUOTED(major, minor, patch)
#define LOCKSTEP_DETAIL_QUOTED(major, minor, patch) #major "." #minor "." #patch
