#pragma once

#include <string>
#include <vector>

#include "lockstep/parallel/features/feature.h"

namespace lockstep {

/// Two features that cannot be had together, or one that cannot be had without another.
struct Exclusion {
  enum class Kind {
    Error,     ///< whoever asks for both gets an Error, on every rank
    NotFused,  ///< the optimizer is not fused: every rank updates all weights, after a warning
    Needs,     ///< an Error unless the second one is asked for, too
  };

  Feature first;
  Feature second;
  Kind kind;
  const char* why;  ///< a sentence without its point
  const char* fix;  ///< what to do instead
};

/// All of them. What depends on more than what is asked for, such as the number of ranks, is not here.
const std::vector<Exclusion>& exclusions();

/// The table as Markdown, for docs/limits.md.
std::string table_of_exclusions();

}  // namespace lockstep
