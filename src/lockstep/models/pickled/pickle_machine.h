#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/models/pickled/pickle_value.h"

namespace lockstep {

/// Reads one pickle that holds tensors as `torch.save` writes them.
///
/// A pickle is a program that may call anything of Python's. This machine knows the opcodes of containers, numbers and
/// texts, and four names: storages, collections.OrderedDict, torch._utils._rebuild_tensor_v2 and _rebuild_parameter,
/// which it carries out itself. It refuses every other opcode and name, so nothing of a file is ever run.
///
/// @param bytes  the pickle, perhaps with more behind it
/// @param begin  where it begins; afterwards, the place behind it
/// @param path  named in errors
/// @throws Error  with the place, if it is cut off, nested deeply, or holds anything else
PickleValue read_pickle(std::string_view bytes, std::size_t& begin, const std::string& path);

}  // namespace lockstep
