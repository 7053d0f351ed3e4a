#include "lockstep/models/rotary/rope_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kParameters = "rope_parameters";  // of transformers 5
constexpr const char* kScaling = "rope_scaling";        // of older versions, beside "rope_theta"
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr double kMostRope = 1e12;
constexpr double kLeastTheta = 1.001;  // 1 would turn all pairs alike

constexpr std::pair<const char*, RopeSettings::Type> kRopeTypes[] = {{"default", RopeSettings::Type::Default},
                                                                     {"linear", RopeSettings::Type::Linear},
                                                                     {"llama3", RopeSettings::Type::Llama3},
                                                                     {"yarn", RopeSettings::Type::Yarn}};

// The fields of the object `key` in a config.json. An absent field and a null value both mean the default.
class RopeFields {
 public:
  RopeFields(const ConfigFile& file, const char* key) : file_(file), key_(key) {
    if (!file.has(key)) return;
    object_ = &file.json().at(key);
    if (!object_->is_object()) file.refuse(key, "is not an object", "give its fields in braces, or null");
  }

  bool is_there() const { return object_ != nullptr && !object_->empty(); }

  const nlohmann::json* find(const char* name) const {
    if (object_ == nullptr) return nullptr;
    const auto found = object_->find(name);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<double> number(const char* name, double min, double max) const {
    const nlohmann::json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
      refuse(fmt::format("has the {} {}", name, value->dump()), fmt::format("give a number from {} to {}", min, max));
    }
    return value->get<double>();
  }

  // A number without which the scaling says nothing.
  double required(const char* name, double min, double max) const {
    const auto value = number(name, min, max);
    if (!value) refuse(fmt::format("has no \"{}\"", name), "give it, as the model's own config.json has it");
    return *value;
  }

  std::string type() const {
    for (const char* name : {"rope_type", "type"}) {
      const nlohmann::json* value = find(name);
      if (value == nullptr) continue;
      if (!value->is_string()) refuse(fmt::format("has the {} {}", name, value->dump()), "give a name");
      return value->get<std::string>();
    }
    return "default";
  }

  [[noreturn]] void refuse(const std::string& problem, const std::string& fix) const {
    file_.refuse(key_, problem, fix);
  }

 private:
  const ConfigFile& file_;
  const char* key_;
  const nlohmann::json* object_ = nullptr;
};

RopeSettings::Type type_of(const RopeFields& fields) {
  const std::string name = fields.type();
  for (const auto& [known, type] : kRopeTypes) {
    if (name == known) return type;
  }
  fields.refuse("has positions of the type \"" + name + "\", which is not supported",
                "only a model with the type default, linear, llama3 or yarn can be loaded");
}

void refuse_other_rotations(const RopeFields& fields) {
  if (fields.number("partial_rotary_factor", 0, 1).value_or(1) != 1) {
    fields.refuse("has a partial_rotary_factor, which is not supported", "these models rotate all of each head");
  }
  for (const char* name : {"mrope_section", "full_attention", "sliding_attention"}) {
    if (fields.find(name) == nullptr) continue;
    fields.refuse(fmt::format("has the field \"{}\", which is not supported", name),
                  "only a model whose layers all have the same positions can be loaded");
  }
}

void read_llama3(const RopeFields& fields, RopeSettings& rope) {
  rope.low_freq_factor = fields.required("low_freq_factor", 1e-6, kMostRope);
  rope.high_freq_factor = fields.required("high_freq_factor", 1e-6, kMostRope);
  if (rope.low_freq_factor == rope.high_freq_factor) {
    fields.refuse("has a low_freq_factor that is the high_freq_factor", "give a larger high_freq_factor");
  }
}

void read_yarn(const RopeFields& fields, RopeSettings& rope) {
  rope.attention_factor = fields.number("attention_factor", 0, kMostRope);
  const auto turns = [&](const char* name, double fallback) {
    const double value = fields.number(name, 0, kMostRope).value_or(0);
    return value > 0 ? value : fallback;
  };
  rope.beta_fast = turns("beta_fast", rope.beta_fast);
  rope.beta_slow = turns("beta_slow", rope.beta_slow);
  rope.mscale = fields.number("mscale", 0, kMostRope);
  rope.mscale_all_dim = fields.number("mscale_all_dim", 0, kMostRope);
  const nlohmann::json* truncates = fields.find("truncate");
  if (truncates != nullptr && !truncates->is_boolean()) {
    fields.refuse("has the truncate " + truncates->dump(), "give true or false");
  }
  if (truncates != nullptr) rope.truncate = truncates->get<bool>();
}

nlohmann::json scaling_json(const RopeSettings& rope, nlohmann::json json) {
  if (!json.is_object()) json = nlohmann::json::object();
  for (const auto& [name, type] : kRopeTypes) {
    if (rope.type == type) json[json.contains("type") && !json.contains("rope_type") ? "type" : "rope_type"] = name;
  }
  const auto set = [&](const char* name, const std::optional<double>& value) {
    if (value) json[name] = *value;
    if (!value) json.erase(name);
  };
  const bool is_yarn = rope.type == RopeSettings::Type::Yarn;
  const bool is_llama3 = rope.type == RopeSettings::Type::Llama3;
  const auto if_so = [](bool is_so, double value) { return is_so ? std::optional<double>(value) : std::nullopt; };
  set("factor", if_so(rope.type != RopeSettings::Type::Default && rope.factor > 0, rope.factor));
  set("low_freq_factor", if_so(is_llama3, rope.low_freq_factor));
  set("high_freq_factor", if_so(is_llama3, rope.high_freq_factor));
  set("attention_factor", is_yarn ? rope.attention_factor : std::nullopt);
  set("beta_fast", if_so(is_yarn, rope.beta_fast));
  set("beta_slow", if_so(is_yarn, rope.beta_slow));
  set("mscale", is_yarn ? rope.mscale : std::nullopt);
  set("mscale_all_dim", is_yarn ? rope.mscale_all_dim : std::nullopt);
  json.erase("truncate");
  if (is_yarn && !rope.truncate) json["truncate"] = false;
  json.erase(kOriginal);
  if ((is_yarn || is_llama3) && rope.original_max_position_embeddings > 0) {
    json[kOriginal] = rope.original_max_position_embeddings;
  }
  return json;
}

}  // namespace

RopeSettings read_rope(const ConfigFile& file, const RopeSettings& fallback) {
  // As transformers 5, which takes an older field that says something over its own.
  const RopeFields older(file, kScaling);
  const RopeFields fields = older.is_there() ? older : RopeFields(file, kParameters);
  refuse_other_rotations(fields);
  if (file.number({"partial_rotary_factor"}, 1, 0, 1) != 1) {
    file.refuse("partial_rotary_factor", "is not 1, which is not supported", "these models rotate all of each head");
  }
  RopeSettings rope = fallback;
  rope.type = type_of(fields);
  const double theta = file.number({"rope_theta"}, fallback.theta, kLeastTheta, kMostRope);
  rope.theta = fields.number("rope_theta", kLeastTheta, kMostRope).value_or(theta);
  if (rope.type == RopeSettings::Type::Default) return rope;
  const bool is_yarn = rope.type == RopeSettings::Type::Yarn;
  rope.factor =
      is_yarn ? fields.number("factor", 1e-6, kMostRope).value_or(0) : fields.required("factor", 1e-6, kMostRope);
  if (rope.type == RopeSettings::Type::Linear) return rope;
  const auto original = fields.number(kOriginal, 1, ConfigFile::kMaxSize);
  rope.original_max_position_embeddings =
      file.integer({kOriginal}, original ? static_cast<std::int64_t>(*original) : 0, 1, ConfigFile::kMaxSize);
  is_yarn ? read_yarn(fields, rope) : read_llama3(fields, rope);
  return rope;
}

void write_rope(const RopeSettings& rope, nlohmann::json& json) {
  const auto is_set = [&](const char* name) { return json.contains(name) && !json[name].is_null(); };
  const bool is_older = is_set(kScaling) || (is_set("rope_theta") && !is_set(kParameters));
  if (json.contains(kOriginal)) json.erase(kOriginal);
  if (!is_older) {
    json[kParameters] = scaling_json(rope, json.value(kParameters, nlohmann::json()));
    json[kParameters]["rope_theta"] = rope.theta;
    json.erase("rope_theta");
    json.erase(kScaling);
    return;
  }
  json["rope_theta"] = rope.theta;
  json.erase(kParameters);
  json[kScaling] = rope.type == RopeSettings::Type::Default
                       ? nlohmann::json()
                       : scaling_json(rope, json.value(kScaling, nlohmann::json()));
  if (json[kScaling].is_object()) json[kScaling].erase("rope_theta");
}

}  // namespace lockstep
