#include "lockstep/train/training_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <type_traits>

#include "lockstep/base/error.h"
#include "lockstep/base/files/duplicate_key.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/files/json_problem.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/text/flag_name.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/train/arguments/huggingface_defaults.h"
#include "lockstep/train/arguments/training_argument_table.h"
#include "lockstep/train/arguments/unknown_arguments.h"
#include "lockstep/train/arguments/yaml_arguments.h"

namespace lockstep {
namespace {

using ArgumentJson = nlohmann::json;

template <typename T>
struct IsOptionalMember : std::false_type {};
template <typename T>
struct IsOptionalMember<std::optional<T>> : std::true_type {};

[[noreturn]] void refuse_argument(const TrainingArgumentRow& row, const std::string& what, const std::string& where,
                                  const std::string& fix) {
  throw UsageError(row.name + ": " + what, where, fix);
}

std::string expected_kind(const TrainingArgumentRow& row) {
  return std::visit(
      [&](auto member) -> std::string {
        using Value = std::decay_t<decltype(std::declval<TrainingArguments>().*member)>;
        if (!row.choices.empty()) return fmt::format("{}", fmt::join(row.choices, "|"));
        if constexpr (std::is_same_v<Value, bool> || std::is_same_v<Value, std::optional<bool>>) return "true|false";
        if constexpr (std::is_same_v<Value, std::int64_t> || std::is_same_v<Value, std::optional<std::int64_t>>) {
          return "INTEGER";
        }
        if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, std::optional<double>>) return "NUMBER";
        if constexpr (std::is_same_v<Value, ArgumentJson>) return "JSON";
        return "TEXT";
      },
      row.member);
}

std::string kind_in_words(const TrainingArgumentRow& row) {
  const std::string kind = expected_kind(row);
  if (!row.choices.empty()) return fmt::format("one of {}", fmt::join(row.choices, ", "));
  if (kind == "INTEGER") return "a whole number";
  if (kind == "NUMBER") return "a number";
  if (kind == "JSON") return "a JSON object";
  return kind == "true|false" ? "true or false" : "a text";
}

void check_number(const TrainingArgumentRow& row, double value, const std::string& where) {
  if (row.above_least ? value > row.least : value >= row.least) {
    if (value <= row.most) return;
  }
  const std::string low = fmt::format("{} {}", row.above_least ? "above" : "at least", row.least);
  const bool bounded = std::isfinite(row.most);
  refuse_argument(row, fmt::format("{} is out of range", value), where,
                  "give a number " + low + (bounded ? fmt::format(" and at most {}", row.most) : ""));
}

void check_choice(const TrainingArgumentRow& row, const std::string& value, const std::string& where) {
  if (row.choices.empty() || std::find(row.choices.begin(), row.choices.end(), value) != row.choices.end()) return;
  refuse_argument(row, fmt::format("there is no '{}'{}", printable(value), did_you_mean(value, row.choices)), where,
                  fmt::format("give one of {}", fmt::join(row.choices, ", ")));
}

[[noreturn]] void wrong_type(const TrainingArgumentRow& row, const ArgumentJson& value, const std::string& where) {
  refuse_argument(row,
                  "the value " + printable(value.dump(-1, ' ', false, ArgumentJson::error_handler_t::replace)) +
                      " is not " + kind_in_words(row),
                  where, "give " + kind_in_words(row));
}

// A number in JSON; it must be whole if `T` is an integer type.
template <typename T>
T number_of(const TrainingArgumentRow& row, const ArgumentJson& value, const std::string& where) {
  if (!value.is_number()) wrong_type(row, value, where);
  const double number = value.get<double>();
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (number != std::floor(number) || std::abs(number) > 9e15) wrong_type(row, value, where);
  }
  check_number(row, number, where);
  return static_cast<T>(number);
}

template <typename T>
void assign(T& target, const TrainingArgumentRow& row, const ArgumentJson& value, const std::string& where) {
  if constexpr (IsOptionalMember<T>::value) {
    if (value.is_null()) {
      target.reset();
      return;
    }
    typename T::value_type inner{};
    assign(inner, row, value, where);
    target = std::move(inner);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) wrong_type(row, value, where);
    target = value.get<bool>();
  } else if constexpr (std::is_arithmetic_v<T>) {
    target = number_of<T>(row, value, where);
  } else if constexpr (std::is_same_v<T, std::string>) {
    // resume_from_checkpoint: true, as in Python
    const std::string text = value.is_boolean()  ? (value.get<bool>() ? "true" : "false")
                             : value.is_string() ? value.get<std::string>()
                                                 : (wrong_type(row, value, where), "");
    check_choice(row, text, where);
    target = text;
  } else if constexpr (std::is_same_v<T, ArgumentJson>) {
    if (!value.is_null() && !value.is_object()) wrong_type(row, value, where);
    target = value;
  } else {  // a list of texts; a single text may be given without brackets
    T items;
    for (const ArgumentJson& item : value.is_array() ? value : ArgumentJson::array({value})) {
      std::string text;
      assign(text, row, item, where);
      items.push_back(text);
    }
    target = std::move(items);
  }
}

const TrainingArgumentRow& row_of(const std::string& flag_or_name, const std::string& where) {
  const std::string name = with_underscores(flag_or_name);
  if (const TrainingArgumentRow* row = find_training_argument(name)) return *row;
  const std::string reason = unsupported_training_argument(name);
  if (!reason.empty()) {
    throw UsageError(name + " is an argument of Hugging Face's Trainer, but not of this one: " + reason, where,
                     fix_of_unsupported_argument(name));
  }
  const std::string flag = script_flag(name);
  if (!flag.empty()) {
    throw UsageError(fmt::format("'{}' is a flag of lockstep train, {}, and no training argument", name, flag), where,
                     fmt::format("leave it out here, and give {} on the command line", flag));
  }
  throw UsageError(fmt::format("there is no training argument '{}'{}", printable(name), suggested_argument(name)),
                   where, "lockstep train --help lists them");
}

// Converts a flag's text into JSON: texts stay texts, "none" becomes null.
ArgumentJson value_of_text(const TrainingArgumentRow& row, const std::string& text) {
  const bool optional = std::visit(
      [](auto member) {
        return IsOptionalMember<std::decay_t<decltype(std::declval<TrainingArguments>().*member)>>::value;
      },
      row.member);
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (optional && (lower == "none" || lower == "null")) return nullptr;
  const std::string kind = expected_kind(row);
  if (kind == "true|false") {
    if (lower == "true" || lower == "1" || lower == "yes" || lower == "on") return true;
    if (lower == "false" || lower == "0" || lower == "no" || lower == "off") return false;
    return text;
  }
  if (kind == "INTEGER" || kind == "NUMBER" || kind == "JSON") {
    const ArgumentJson parsed = ArgumentJson::parse(text, nullptr, false);
    if (kind == "JSON") refuse_duplicate_keys(text, "command line, --" + row.name);
    return parsed.is_discarded() ? ArgumentJson(text) : parsed;
  }
  return text;
}

// transformers 5 names a way to sample, in place of a switch.
ArgumentJson of_sampling_strategy(const TrainingArgumentRow& row, const ArgumentJson& value, const std::string& where) {
  if (row.name != "group_by_length" || !value.is_string()) return value;
  const auto strategy = value.get<std::string>();
  if (strategy == "group_by_length") return true;
  if (strategy == "random") return false;
  refuse_argument(row, fmt::format("samples are not taken by '{}'", printable(strategy)), where,
                  "give random, which draws them in another order in each epoch, or group_by_length");
}

bool takes_texts(const std::string& name) {
  const TrainingArgumentRow* row = find_training_argument(with_underscores(name));
  return row != nullptr && std::visit(
                               [](auto member) {
                                 using Value = std::decay_t<decltype(std::declval<TrainingArguments>().*member)>;
                                 return std::is_same_v<Value, std::string> ||
                                        std::is_same_v<Value, std::optional<std::string>> ||
                                        std::is_same_v<Value, std::vector<std::string>> ||
                                        std::is_same_v<Value, std::optional<std::vector<std::string>>>;
                               },
                               row->member);
}

ArgumentJson json_arguments(const std::string& text, const std::string& path) {
  refuse_deep_json(text, path);
  refuse_duplicate_keys(text, path);
  ArgumentJson document;
  try {
    document = ArgumentJson::parse(text);
  } catch (const ArgumentJson::exception&) {
    throw UsageError("this is not JSON: " + find_json_problem(text).text(), path, "correct the file");
  }
  if (!document.is_object()) {
    throw UsageError("training arguments must be a JSON object", path, R"(write {"learning_rate": 2e-5, ...})");
  }
  return document;
}

}  // namespace

void set_training_argument(TrainingArguments& arguments, const std::string& name, const nlohmann::json& value,
                           const std::string& where) {
  const TrainingArgumentRow& row = row_of(name, where);
  const ArgumentJson meant = of_sampling_strategy(row, value, where);
  std::visit([&](auto member) { assign(arguments.*member, row, meant, where); }, row.member);
}

void set_training_argument(TrainingArguments& arguments, const std::string& name, const std::string& text,
                           const std::string& where) {
  set_training_argument(arguments, name, value_of_text(row_of(name, where), text), where);
}

void read_training_arguments(TrainingArguments& arguments, const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  const std::string text = read_regular_file(path, kMostSettingsBytes);
  ArgumentJson document =
      ending == ".yaml" || ending == ".yml" ? yaml_arguments(text, path, takes_texts) : json_arguments(text, path);
  drop_huggingface_defaults(document);
  refuse_unknown_arguments(document, path);
  for (const auto& [name, value] : document.items()) set_training_argument(arguments, name, value, path);
}

nlohmann::json to_json(const TrainingArguments& arguments) {
  ArgumentJson out = ArgumentJson::object();
  for (const TrainingArgumentRow& row : training_argument_table()) {
    std::visit(
        [&](auto member) {
          const auto& value = arguments.*member;
          if constexpr (IsOptionalMember<std::decay_t<decltype(value)>>::value) {
            out[row.name] = value ? ArgumentJson(*value) : ArgumentJson(nullptr);
          } else {
            out[row.name] = value;
          }
        },
        row.member);
  }
  return out;
}

std::vector<TrainingArgumentInfo> training_argument_infos() {
  const ArgumentJson defaults = to_json(TrainingArguments());
  std::vector<TrainingArgumentInfo> infos;
  for (const TrainingArgumentRow& row : training_argument_table()) {
    const std::string kind = expected_kind(row);
    const ArgumentJson& value = defaults.at(row.name);
    infos.push_back({row.name, kind, value.is_null() ? "" : value.dump(), row.help, kind == "true|false", row.aliases});
  }
  return infos;
}

}  // namespace lockstep
