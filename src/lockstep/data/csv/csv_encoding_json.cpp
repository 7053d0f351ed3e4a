// The encoding learned from a training file, in the form that is saved with a model.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/detail/data/csv_encoding.h"

namespace lockstep {
namespace {

using EncodingJson = nlohmann::ordered_json;
using EncodedKind = CsvColumn::Kind;
using EncodedScaling = CsvColumn::Scaling;
using EncodedAs = CsvColumn::Encoding;

constexpr std::pair<EncodedScaling, const char*> kScalingNames[] = {{EncodedScaling::None, "none"},
                                                                    {EncodedScaling::MinMax, "min_max"},
                                                                    {EncodedScaling::LogMinMax, "log_min_max"},
                                                                    {EncodedScaling::Standard, "standard"}};

const char* scaling_name(EncodedScaling scaling) {
  for (const auto& [value, name] : kScalingNames) {
    if (value == scaling) return name;
  }
  return "none";
}

EncodedScaling scaling_named(const std::string& wanted) {
  for (const auto& [value, name] : kScalingNames) {
    if (wanted == name) return value;
  }
  throw std::invalid_argument("there is no scaling \"" + wanted + "\"");
}

// A value of a key, or why it is missing: the library's own text names no key if the type is wrong.
template <typename T>
T value_of(const EncodingJson& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end()) throw std::invalid_argument(fmt::format("there is no \"{}\"", key));
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument(fmt::format("\"{}\" is of another type: {}", key, found->type_name()));
  }
}

CsvColumn column_of(const EncodingJson& json) {
  const auto name = value_of<std::string>(json, "name");
  const auto kind = value_of<std::string>(json, "kind");
  if (kind == "number") return number_column(name, scaling_named(value_of<std::string>(json, "scaling")));
  if (kind != "category") throw std::invalid_argument("\"kind\" is neither number nor category");
  const EncodedAs as = value_of<std::string>(json, "encoding") == "index" ? EncodedAs::Index : EncodedAs::OneHot;
  CsvColumn column = category_column(name, value_of<std::vector<std::string>>(json, "values"), as);
  column.unknown_allowed = value_of<bool>(json, "unknown_allowed");
  return column;
}

double number_or(const EncodingJson& json, const char* key, double fallback) {
  return json.contains(key) ? value_of<double>(json, key) : fallback;
}

// Classes are numbered from 0.
std::map<std::string, std::int64_t> classes_of(const EncodingJson& json) {
  auto classes = value_of<std::map<std::string, std::int64_t>>(json, "classes");
  std::vector<bool> seen(classes.size());
  for (const auto& [name, number] : classes) {
    const auto place = static_cast<std::size_t>(number);
    if (number < 0 || place >= seen.size() || seen[place]) {
      throw std::invalid_argument(fmt::format("\"classes\": {} of {:?} is out of order", number, name.substr(0, 80)));
    }
    seen[place] = true;
  }
  return classes;
}

}  // namespace

std::string CsvEncoding::json() const {
  EncodingJson columns = EncodingJson::array();
  for (const Feature& feature : features_) {
    const CsvColumn& column = feature.declared;
    EncodingJson json{{"name", column.name}};
    if (column.kind == EncodedKind::Number) {
      json["kind"] = "number";
      json["scaling"] = scaling_name(column.scaling);
      json["offset"] = feature.offset;
      json["factor"] = feature.factor;
    } else {
      json["kind"] = "category";
      json["encoding"] = column.encoding == EncodedAs::Index ? "index" : "one_hot";
      json["unknown_allowed"] = column.unknown_allowed;
      json["values"] = column.values;
    }
    columns.push_back(std::move(json));
  }
  try {
    return EncodingJson{{"columns", columns}, {"classes", classes_}}.dump(2);
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("a text of the table is not UTF-8: ") + error.what(), "CSV encoding",
                "store the file as UTF-8");
  }
}

CsvEncoding CsvEncoding::from_json(const std::string& text, const std::string& path) {
  CsvEncoding encoding;
  std::string where = path;
  int number = 0;
  try {
    const EncodingJson json = EncodingJson::parse(text);
    for (const EncodingJson& column : value_of<std::vector<EncodingJson>>(json, "columns")) {
      where = fmt::format("{}, column {}", path, ++number);
      Feature feature{column_of(column)};
      feature.offset = number_or(column, "offset", 0);
      feature.factor = number_or(column, "factor", 1);
      encoding.add(std::move(feature));
    }
    where = path;
    encoding.classes_ = classes_of(json);
  } catch (const std::exception& error) {
    throw Error(std::string("this is not an encoding of a table: ") + error.what(), where,
                "give the folder of a model that lockstep train wrote");
  }
  return encoding;
}

}  // namespace lockstep
