#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/train/arguments/yaml_arguments.h"

namespace lockstep::fuzz {

void run_yaml_arguments(std::string_view bytes) {
  const auto is_text = [](const std::string& name) { return name.find("strategy") != std::string::npos; };
  const nlohmann::json arguments = yaml_arguments(std::string(bytes), "args.yaml", is_text);
  LOCKSTEP_HOLDS(arguments.is_object());
  for (const auto& [name, value] : arguments.items()) {
    LOCKSTEP_HOLDS(!is_text(name) || value.is_string() || value.is_null() || value.is_structured());
  }
}

}  // namespace lockstep::fuzz
