// The flag `--seq` and the models that accept it.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/models/model.h"

namespace lockstep {

/// @param length  of `--seq`; 0: not given
/// @throws UsageError  if it was given for a model that takes no texts
inline void check_sequence_flag(const Model& model, const std::string& name, std::int64_t length) {
  if (length == 0 || model.input_kind() == InputKind::Text) return;
  throw UsageError("--seq cannot be combined with --model " + name + ", which takes no texts", "command line",
                   "leave --seq out");
}

}  // namespace lockstep
