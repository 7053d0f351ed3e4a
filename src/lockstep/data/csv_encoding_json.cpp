// What a training file taught, as it is kept with a model.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/data/csv_encoding.h"

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

CsvColumn column_of(const EncodingJson& json) {
  const auto name = json.at("name").get<std::string>();
  if (json.at("kind") == "number") return number_column(name, scaling_named(json.at("scaling").get<std::string>()));
  if (json.at("kind") != "category") throw std::invalid_argument("column " + name + " is neither number nor category");
  const EncodedAs as = json.at("encoding") == "index" ? EncodedAs::Index : EncodedAs::OneHot;
  CsvColumn column = category_column(name, json.at("values").get<std::vector<std::string>>(), as);
  column.unknown_allowed = json.at("unknown_allowed").get<bool>();
  return column;
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
    throw Error(std::string("a text of the table is no UTF-8: ") + error.what(), "CSV encoding",
                "store the file as UTF-8");
  }
}

CsvEncoding CsvEncoding::from_json(const std::string& text, const std::string& path) {
  CsvEncoding encoding;
  try {
    const EncodingJson json = EncodingJson::parse(text);
    for (const EncodingJson& column : json.at("columns")) {
      Feature feature{column_of(column)};
      feature.offset = column.value("offset", 0.0);
      feature.factor = column.value("factor", 1.0);
      encoding.add(std::move(feature));
    }
    encoding.classes_ = json.at("classes").get<std::map<std::string, std::int64_t>>();
  } catch (const std::exception& error) {
    throw Error(std::string("this is no encoding of a table: ") + error.what(), path,
                "give the folder of a model that lockstep train wrote");
  }
  return encoding;
}

}  // namespace lockstep
