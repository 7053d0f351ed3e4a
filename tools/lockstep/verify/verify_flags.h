#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/verify.h"

namespace lockstep {

/// The flags of `lockstep verify`.
struct VerifyFlags {
  std::string model = "convnet";
  std::string data;
  std::string tokenizer;
  std::string text;                       ///< column; empty: the usual name
  std::string label;                      ///< column; empty: the usual name
  std::vector<std::int64_t> input_shape;  ///< of one sample, for TorchScript
  std::int64_t batch = 64;
  std::int64_t sequence_length = 0;
  int steps = 1;
  bool is_double = false;
  std::uint64_t seed = 0;
  VerifyOptions options;
};

/// Verifies a model by name, or the model of a folder that a training or Hugging Face's library wrote.
/// @throws Error  if it cannot be read, or flags or data do not fit it
Verification verify_model(const VerifyFlags& flags);
/// Verifies the TorchScript module in the file `flags.model`: cross entropy if its output is [rows, classes], squared
/// error for any other. @throws Error  as above
Verification verify_script(const VerifyFlags& flags);

}  // namespace lockstep
