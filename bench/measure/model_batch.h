#pragma once

#include <cstdint>

#include "lockstep/data/batch.h"
#include "lockstep/detail/models/config_file.h"

namespace lockstep {

/// True for a BERT, false for a GPT-2.
bool is_classifier(const ConfigFile& config);

/// Texts of different lengths: the last of n is almost a quarter shorter. huggingface_model.py makes the same batch.
Batch make_model_batch(const ConfigFile& config, std::int64_t size, std::int64_t length);

}  // namespace lockstep
