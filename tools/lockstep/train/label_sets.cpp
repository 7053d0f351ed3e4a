#include "tools/lockstep/train/label_sets.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/csv/class_order.h"
#include "lockstep/data/files/row_notices.h"
#include "lockstep/data/transform_dataset.h"

namespace lockstep {
namespace {

// Python prints texts in single quotes, unless they have one.
std::string with_double_quotes(const std::string& text) {
  std::string json;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0 && c == '\\' && i + 1 < text.size()) {
      json += text[++i] == '\'' ? "'" : std::string{c, text[i]};
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      json += '"';
    } else if (quote != 0 && c == quote) {
      quote = 0;
      json += '"';
    } else {
      json += c == '"' ? std::string("\\\"") : std::string(1, c);
    }
  }
  return json;
}

std::optional<std::string> name_of(const nlohmann::json& item) {
  if (item.is_string()) return item.get<std::string>();
  if (item.is_number_integer()) return item.dump();
  return std::nullopt;
}

// The numbers, in `names`, of the labels that a list names.
std::vector<std::int64_t> numbers_in(const std::string& list, const std::map<std::string, std::int64_t>& numbers,
                                     const std::string& path, RowPolicy unlisted) {
  const auto named = parse_label_list(list);
  if (!named) {
    throw UsageError(
        fmt::format(
            "the label \"{}\" is not a list of names or whole numbers, but the model gives each text several labels",
            printable(list)),
        path, R"(give lists, as ["rude","threat"], or name one column of 0 and 1 for each label)");
  }
  std::set<std::int64_t> found;
  for (const std::string& name : *named) {
    const auto number = numbers.find(name);
    if (number == numbers.end()) {
      if (unlisted == RowPolicy::Skip) continue;
      throw UsageError(
          fmt::format("the label \"{}\" is not one of the model's {} labels", printable(name), numbers.size()), path,
          "correct the file, or leave such rows out: --unlisted-labels skip");
    }
    if (found.insert(number->second).second) continue;
    throw UsageError(fmt::format("the list {} names the label \"{}\" twice", printable(list), printable(name)), path,
                     "name each label once; for rows of 0 and 1, one column for each label, named by --label-column");
  }
  return {found.begin(), found.end()};
}

std::map<std::string, std::int64_t> numbers_of(const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& name : names) numbers.emplace(name, static_cast<std::int64_t>(numbers.size()));
  return numbers;
}

}  // namespace

std::optional<std::vector<std::string>> parse_label_list(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos || text[first] != '[') return std::nullopt;
  auto list = nlohmann::json::parse(text, nullptr, false);
  if (list.is_discarded()) list = nlohmann::json::parse(with_double_quotes(text), nullptr, false);
  if (!list.is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& item : list) {
    const std::optional<std::string> name = name_of(item);
    if (!name) return std::nullopt;
    names.push_back(*name);
  }
  return names;
}

std::vector<std::string> names_in_lists(const std::vector<std::string>& lists) {
  std::set<std::string> found;
  for (const std::string& list : lists) {
    const auto named = parse_label_list(list);
    if (named) found.insert(named->begin(), named->end());
  }
  std::vector<std::string> names(found.begin(), found.end());
  sort_classes(names);
  return names;
}

std::optional<std::string> joined_label_in(const std::vector<std::string>& labels) {
  const std::set<std::string> all(labels.begin(), labels.end());
  for (const std::string& label : labels) {
    for (const char between : {'|', ';', ','}) {
      if (label.find(between) == std::string::npos) continue;
      std::istringstream parts(label);
      bool are_labels = true;
      for (std::string part; are_labels && std::getline(parts, part, between);) {
        const std::size_t begin = part.find_first_not_of(' ');
        const std::size_t end = part.find_last_not_of(' ');
        are_labels = begin != std::string::npos && all.count(part.substr(begin, end - begin + 1)) > 0;
      }
      if (are_labels) return label;
    }
  }
  return std::nullopt;
}

std::shared_ptr<const TextDataset> rows_of_known_labels(std::shared_ptr<const TextDataset> rows,
                                                        const std::vector<std::string>& names,
                                                        const std::string& path) {
  const std::set<std::string> known(names.begin(), names.end());
  std::set<std::int64_t> unknown_lists;
  for (const auto& [list, number] : rows->labels()) {
    const auto named = parse_label_list(list);
    const auto is_known = [&](const std::string& name) { return known.count(name) != 0; };
    if (named && !std::all_of(named->begin(), named->end(), is_known)) unknown_lists.insert(number);
  }
  if (unknown_lists.empty()) return rows;
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < rows->size(); ++i) {
    if (unknown_lists.count(rows->get(i).label.value()) == 0) kept.push_back(i);
  }
  if (kept.empty()) throw UsageError("every row has a label that the model does not have", path, "correct the labels");
  warn_of_rows("{}: left out {} of {} rows because the model does not have their label", path,
               rows->size() - static_cast<std::int64_t>(kept.size()), rows->size());
  return select_rows(std::move(rows), std::move(kept));
}

std::shared_ptr<const Dataset> with_sets_as_labels(std::shared_ptr<const Dataset> dataset,
                                                   const std::map<std::string, std::int64_t>& lists,
                                                   const std::vector<std::string>& names, const std::string& path,
                                                   RowPolicy unlisted) {
  const std::map<std::string, std::int64_t> numbers = numbers_of(names);
  std::vector<std::vector<std::int64_t>> sets(lists.size());
  for (const auto& [list, index] : lists)
    sets[static_cast<std::size_t>(index)] = numbers_in(list, numbers, path, unlisted);
  const auto width = static_cast<std::int64_t>(names.size());
  return std::make_shared<TransformDataset>(std::move(dataset), [sets = std::move(sets), width](Batch batch) {
    at::Tensor& of_batch = batch.at("labels");
    const at::Tensor index = of_batch.contiguous();
    of_batch = at::zeros({index.numel(), width}, at::kFloat);
    for (std::int64_t row = 0; row < index.numel(); ++row) {
      float* const flags = of_batch.data_ptr<float>() + row * width;
      for (const std::int64_t label : sets[static_cast<std::size_t>(index.data_ptr<std::int64_t>()[row])]) {
        flags[label] = 1;
      }
    }
    return batch;
  });
}

}  // namespace lockstep
