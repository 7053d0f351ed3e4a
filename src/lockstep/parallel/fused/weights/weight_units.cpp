#include "lockstep/parallel/fused/weights/weight_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"

namespace lockstep {
namespace {

const char* const kWhere = "fuse, stage 3";

bool is_in(const std::string& name, const std::string& unit) {
  return name.size() > unit.size() && name.compare(0, unit.size(), unit) == 0 && name[unit.size()] == '.';
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string last_part(const std::string& name, const std::string& separator) {
  const std::size_t at = name.rfind(separator);
  return at == std::string::npos ? name : name.substr(at + separator.size());
}

// The name of a C++ type as the program knows it: without namespaces and the Impl of LibTorch's holders.
std::string plain_type(const std::string& type) {
  std::string name = last_part(type, "::");
  if (name.size() > 4 && name.compare(name.size() - 4, 4, "Impl") == 0) name.resize(name.size() - 4);
  return name;
}

std::vector<std::string> names_of(const ModuleTensors& module) {
  std::vector<std::string> names;
  for (const NamedLayer& layer : module.layers) names.push_back(layer.name);
  return names;
}

void add_named(const FuseOptions& options, const ModuleTensors& module, std::vector<std::string>& units) {
  const std::vector<std::string> names = names_of(module);
  for (const std::string& unit : options.units) {
    if (unit.empty() || std::find(names.begin(), names.end(), unit) == names.end()) {
      throw Error(
          fmt::format("units names \"{}\", but the module has no such submodule{}", unit, did_you_mean(unit, names)),
          kWhere, "write names as named_modules() has them");
    }
    units.push_back(unit);
  }
}

void add_types(const FuseOptions& options, const ModuleTensors& module, std::vector<std::string>& units) {
  for (const std::string& type : options.unit_types) {
    bool any = false;
    for (const NamedLayer& layer : module.layers) {
      if (layer.name.empty() || plain_type(layer.type) != plain_type(type)) continue;
      units.push_back(layer.name);
      any = true;
    }
    if (any) continue;
    std::vector<std::string> known;
    for (const NamedLayer& layer : module.layers) known.push_back(plain_type(layer.type));
    throw Error(fmt::format("the module has no submodule of type \"{}\"{}", type, did_you_mean(type, known)), kWhere,
                "name types of its submodules, as \"BertLayer\"");
  }
}

// From the last layer to the first, so that children come before parents.
void add_large(std::int64_t least, const ModuleTensors& module, std::vector<std::string>& units) {
  if (least <= 0) return;
  for (auto layer = module.layers.rbegin(); layer != module.layers.rend(); ++layer) {
    if (layer->name.empty()) continue;
    std::int64_t numel = 0;
    for (const NamedTensor& parameter : module.parameters) {
      const auto holds = [&](const std::string& unit) {
        return is_in(parameter.name, unit) && (unit == layer->name || is_in(unit, layer->name));
      };
      const bool is_taken = std::any_of(units.begin(), units.end(), holds);
      if (is_in(parameter.name, layer->name) && !is_taken) numel += parameter.tensor.numel();
    }
    if (numel >= least) units.push_back(layer->name);
  }
}

// The outermost ones: a numbered submodule within a layer belongs to the layer.
void add_numbered(const ModuleTensors& module, std::vector<std::string>& units) {
  for (const NamedLayer& layer : module.layers) {
    const bool is_inside =
        std::any_of(units.begin(), units.end(), [&](const std::string& unit) { return is_in(layer.name, unit); });
    if (is_number(last_part(layer.name, ".")) && !is_inside) units.push_back(layer.name);
  }
}

}  // namespace

std::vector<std::string> unit_names(const FuseOptions& options, const ModuleTensors& module) {
  std::vector<std::string> units;
  add_named(options, module, units);
  add_types(options, module, units);
  add_large(options.unit_min_params, module, units);
  if (options.units.empty() && options.unit_types.empty() && options.unit_min_params <= 0) add_numbered(module, units);
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

std::size_t unit_of(const std::string& parameter, const std::vector<std::string>& names) {
  std::size_t best = 0;
  std::size_t length = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_in(parameter, names[i]) || names[i].size() < length) continue;
    best = i + 1;
    length = names[i].size();
  }
  return best;
}

WeightUnits::WeightUnits(const std::vector<std::string>& names, const std::vector<FusedBucket>& buckets,
                         const GradientBuckets& gradients)
    : units(names.size() + 1), of(gradients.num_parameters(), 0) {
  for (std::size_t i = 0; i < names.size(); ++i) units[i + 1].name = names[i];
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    for (const std::size_t parameter : buckets[index].parameters) {
      of[parameter] = unit_of(gradients.name(parameter), names);
      std::vector<std::size_t>& used = units[of[parameter]].buckets;
      if (used.empty() || used.back() != index) used.push_back(index);
    }
  }
}

}  // namespace lockstep
