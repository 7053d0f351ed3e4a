#pragma once

#include <string>

#include "lockstep/models/pickled/pickle_bytes.h"
#include "lockstep/models/pickled/pickle_value.h"

namespace lockstep {

// The names of Python that a pickle of weights needs, and what each means here: storages, collections.OrderedDict,
// torch._utils._rebuild_tensor_v2 and _rebuild_parameter. `at` names the place in errors.

/// @throws Error  if `module`.`name` is not one of them
PickleGlobal known_global(const std::string& module, const std::string& name, const PickleBytes& at);

/// The storage that a persistent id names. @throws Error  if it names anything else
PickledStorage storage_of_id(const PickleValue& id, const PickleBytes& at);

/// What a call of a known name returns. @throws Error  if it is not a function, or the arguments are not its own
PickleValue result_of_call(const PickleValue& function, const PickleValue& arguments, const PickleBytes& at);

}  // namespace lockstep
