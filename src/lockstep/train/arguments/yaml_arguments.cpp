#include "lockstep/train/arguments/yaml_arguments.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

constexpr int kDeepestYaml = 16, kMostYamlNodes = 10000;

/// Converts nodes, and counts them: aliases can make a small file large.
class YamlReader {
 public:
  YamlReader(std::string path, const std::function<bool(const std::string&)>& is_text)
      : path_(std::move(path)), is_text_(is_text) {}

  nlohmann::json object_of(const YAML::Node& map, int depth = 0) {
    nlohmann::json object = nlohmann::json::object();
    std::map<std::string, int> lines;
    for (const auto& item : map) {
      if (!item.first.IsScalar()) refuse(item.first, "a key is not a single word");
      const std::string& key = item.first.Scalar();
      const auto [first, is_new] = lines.emplace(key, item.first.Mark().line + 1);
      if (!is_new) {
        refuse(item.first,
               fmt::format("the key '{}' occurs twice: here and in line {}", printable(key), first->second));
      }
      object[key] = value_of(item.second, depth == 0 && is_text_(key), depth + 1);
    }
    return object;
  }

 private:
  [[noreturn]] void refuse(const YAML::Node& node, const std::string& problem) const {
    throw UsageError(problem, fmt::format("{}:{}", path_, node.Mark().line + 1),
                     "write a mapping of arguments, as in learning_rate: 2e-5");
  }

  nlohmann::json value_of(const YAML::Node& node, bool is_text, int depth) {
    if (depth > kDeepestYaml || ++nodes_ > kMostYamlNodes) refuse(node, "this is nested too deeply, or too large");
    if (node.IsMap()) return object_of(node, depth);
    if (node.IsSequence()) {
      nlohmann::json list = nlohmann::json::array();
      for (const YAML::Node& item : node) list.push_back(value_of(item, is_text, depth + 1));
      return list;
    }
    if (!node.IsScalar() || (node.Tag() == "?" && YAML::IsNullString(node.Scalar()))) return nullptr;
    if (node.Tag() == "!" || is_text) return node.Scalar();  // quoted, or a text by its argument
    return plain(node);
  }

  static nlohmann::json plain(const YAML::Node& node) {
    std::int64_t whole = 0;
    double number = 0;
    bool is_on = false;
    if (YAML::convert<std::int64_t>::decode(node, whole)) return whole;
    if (YAML::convert<double>::decode(node, number)) return number;
    if (YAML::convert<bool>::decode(node, is_on)) return is_on;
    return node.Scalar();
  }

  std::string path_;
  const std::function<bool(const std::string&)>& is_text_;
  int nodes_ = 0;
};

}  // namespace

nlohmann::json yaml_arguments(const std::string& text, const std::string& path,
                              const std::function<bool(const std::string&)>& is_text) {
  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw UsageError("this is not YAML: " + printable(error.msg), fmt::format("{}:{}", path, error.mark.line + 1),
                     "correct the line");
  }
  if (!root.IsMap()) {
    throw UsageError("training arguments must be a YAML mapping", path, "write learning_rate: 2e-5 and the like");
  }
  return YamlReader(path, is_text).object_of(root);
}

}  // namespace lockstep
