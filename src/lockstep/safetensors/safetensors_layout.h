#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// A safetensors file before its data is written.
struct SafetensorsLayout {
  std::string prefix;    ///< the file's bytes before the data: the header and its length
  NamedTensors tensors;  ///< in the order of their data, which follows without gaps
  std::uint64_t data_bytes = 0;
};

/// Lays out a file for tensors of these names, dtypes and sizes. Elements are not read, so that the tensors may be of
/// the device "meta", which has none.
/// @throws Error  as SafetensorsStream
SafetensorsLayout lay_out_safetensors(const std::string& path, const NamedTensors& tensors,
                                      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace lockstep
