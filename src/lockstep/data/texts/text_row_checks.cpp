#include "lockstep/data/texts/text_row_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/data/csv/class_order.h"
#include "lockstep/data/files/row_notices.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

// A value for a message: quoted, and short.
std::string shown_value(std::string_view text) {
  constexpr std::size_t kMost = 40;
  return fmt::format("{:?}{}", text.substr(0, kMost), text.size() > kMost ? "…" : "");
}

template <typename Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& entry : map) keys.push_back(entry.first);
  return keys;
}

// The first names of many.
std::string some_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  const std::size_t shown = std::min(names.size(), kShown);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > shown ? fmt::format(", … ({} in all)", names.size()) : "");
}

void check_columns(const TextFileOptions& options, const std::string& path) {
  if (options.texts.empty()) {
    throw Error("no column with texts was named", path, "name one, or two for pairs, in `texts`");
  }
  if (!options.label.empty() && !options.label_columns.empty()) {
    throw Error("both one label column and several label columns are named", path,
                "leave out `label` or `label_columns`");
  }
  std::vector<std::string> labels = options.label_columns;
  if (labels.empty()) labels.push_back(options.label);
  std::set<std::string> names(options.texts.begin(), options.texts.end());
  names.insert(labels.begin(), labels.end());
  if (names.size() == options.texts.size() + labels.size()) return;
  throw Error(fmt::format("a column is named twice among the texts {} and the label \"{}\"",
                          fmt::join(options.texts, ", "), fmt::join(labels, ", ")),
              path, "name each column once");
}

void check_labels(const TextFileOptions& options, const std::string& path) {
  const bool has_settings = !options.labels.empty() || options.num_labels != 0;
  if (!options.has_labels() && has_settings) {
    throw Error("labels are described, but no label column is named", path, "name it in `label`");
  }
  if (options.unlisted_labels == RowPolicy::Keep || options.missing_labels == RowPolicy::Keep) {
    throw Error("rows whose label is missing or not listed cannot be kept: they would have no label", path,
                "refuse or skip them, or list the label");
  }
  if (options.unlisted_labels == RowPolicy::Skip && options.labels.empty()) {
    throw Error("rows whose label is not listed are to be skipped, but no label is listed", path,
                "list the labels to keep in `labels`");
  }
  for (const auto& [text, label] : options.labels) {
    if (label >= 0 && label <= std::numeric_limits<std::int32_t>::max() &&
        (options.num_labels == 0 || label < options.num_labels)) {
      continue;
    }
    throw Error(options.num_labels == 0 ? fmt::format("label {} of \"{}\" is not from 0 to 2^31 - 1", label, text)
                                        : fmt::format("label {} of \"{}\" is outside the model's head of {} labels",
                                                      label, text, options.num_labels),
                fmt::format("{}, column \"{}\"", path, options.label),
                "number labels from 0 on, and give the model as many as there are");
  }
}

}  // namespace

std::string no_such_column(const std::string& name, const std::vector<std::string>& columns) {
  if (columns.empty()) return fmt::format("there is no column \"{}\", and no other column", name);
  const std::string suggestion = did_you_mean(name, columns);
  return fmt::format("there is no column \"{}\"{} The columns are: {}", name, suggestion.empty() ? "." : suggestion,
                     some_names(columns));
}

std::string no_such_field(const std::string& name, const std::vector<std::string>& own,
                          const std::vector<std::string>& first) {
  const std::string suggestion = did_you_mean(name, own);
  return fmt::format("the object has no \"{}\"{} It has: {}. The first object has: {}", name,
                     suggestion.empty() ? "." : suggestion, own.empty() ? "nothing" : some_names(own),
                     some_names(first));
}

TextRowChecks::TextRowChecks(const TextFileOptions& options, std::string path)
    : options_(options), path_(std::move(path)) {
  check_columns(options_, path_);
  check_labels(options_, path_);
  for (const auto& [text, label] : options_.labels) labels_[text] = {static_cast<std::int32_t>(label), ""};
}

void TextRowChecks::text(std::size_t field, std::string_view value, const Where& where) {
  if (value.find_first_not_of(kWhiteSpace) == std::string_view::npos) {
    refuse_or_skip(options_.empty_texts, fmt::format("the text \"{}\" is empty", options_.texts[field]), where,
                   "correct the row, or leave such rows out (lockstep train: --empty-texts skip; a program: "
                   "TextFileOptions::empty_texts)",
                   skipped_empty_);
  }
  const std::size_t nul = value.find('\0');
  const bool is_utf8 = text::is_valid_utf8(value);
  if (nul == std::string_view::npos && is_utf8) return;
  const std::optional<std::size_t> bad = is_utf8 ? std::nullopt : text::find_invalid_utf8(value);
  const std::string what = bad ? fmt::format("byte {} of the text \"{}\", {:#04x}, is not UTF-8", *bad + 1,
                                             options_.texts[field], static_cast<unsigned char>(value[*bad]))
                               : fmt::format("byte {} of the text \"{}\" is NUL", nul + 1, options_.texts[field]);
  invalid_bytes(what, where);
}

void TextRowChecks::invalid_bytes(const std::string& what, const Where& where) {
  refuse_or_skip(options_.invalid_texts, what, where,
                 "store the file as UTF-8, or leave such rows out (lockstep train: --invalid-texts skip; a program: "
                 "TextFileOptions::invalid_texts)",
                 skipped_invalid_);
}

void TextRowChecks::label(std::string_view value, const Where& where) {
  if (!keep_) return;  // a row that is left out teaches no label
  if (last_id_ >= 0 && value == last_label_) {
    id_ = last_id_;
    return;
  }
  last_label_ = value;
  last_id_ = -1;
  if (labels_.find(last_label_) == labels_.end()) {
    if (value.find_first_not_of(kWhiteSpace) == std::string_view::npos) {
      return missing_label(fmt::format("the label \"{}\" is empty", options_.label), where);
    }
    if (!learns()) {
      const std::vector<std::string> listed = keys_of(options_.labels);
      return unlisted_label(fmt::format("{} in the column \"{}\" is not one of the labels {}{}", shown_value(value),
                                        options_.label, some_names(listed), did_you_mean(last_label_, listed)),
                            where);
    }
    learn(last_label_, where);
  }
  id_ = last_id_ = labels_[last_label_].id;
}

void TextRowChecks::label_set(std::string_view list, const Where& where) {
  holds_sets_ = true;
  label(list, where);
}

void TextRowChecks::no_label(const Where& where) {
  missing_label(fmt::format("the label \"{}\" is null", options_.label), where);
}

// A row without a label has none of the listed ones either.
void TextRowChecks::missing_label(const std::string& what, const Where& where) {
  if (!keep_) return;
  const bool is_skipped = options_.missing_labels == RowPolicy::Skip || options_.unlisted_labels == RowPolicy::Skip;
  refuse_or_skip(is_skipped ? RowPolicy::Skip : RowPolicy::Refuse, what, where,
                 "correct the row, or leave such rows out (lockstep train: --missing-labels skip; a program: "
                 "TextFileOptions::missing_labels)",
                 skipped_labels_);
}

void TextRowChecks::unlisted_label(const std::string& what, const Where& where) {
  refuse_or_skip(options_.unlisted_labels, what, where,
                 "correct the row, or leave such rows out (lockstep train and evaluate: --unlisted-labels skip; a "
                 "program: TextFileOptions::unlisted_labels, or the label in TextFileOptions::labels)",
                 skipped_labels_);
}

void TextRowChecks::learn(const std::string& value, const Where& where) {
  const std::size_t most = holds_sets_ ? kMostSets : kMostLabels;
  if (labels_.size() == most) {
    throw Error(fmt::format("there are more than {} different labels in the column \"{}\"", most, options_.label),
                where(), "name another column, or list the labels");
  }
  const auto id = static_cast<std::int32_t>(labels_.size());
  labels_[value] = {id, where()};
}

void TextRowChecks::refuse_or_skip(RowPolicy policy, const std::string& what, const Where& where,
                                   const std::string& fix, std::int64_t& skipped) {
  if (policy == RowPolicy::Keep) return;
  if (policy == RowPolicy::Refuse) throw Error(what, where(), fix);
  if (keep_) ++skipped;  // a row counts only once
  keep_ = false;
}

bool TextRowChecks::end_row(std::uint64_t offset) {
  const bool kept = keep_;
  if (kept) {
    offsets_.push_back(offset);
    if (options_.has_labels()) row_labels_.push_back(id_);
  }
  keep_ = true;
  return kept;
}

void TextRowChecks::finish() {
  const std::int64_t skipped = skipped_labels_ + skipped_empty_ + skipped_invalid_;
  const std::string reasons = fmt::format("{} for their label, {} for an empty text, {} for invalid bytes",
                                          skipped_labels_, skipped_empty_, skipped_invalid_);
  if (offsets_.empty()) {
    throw Error(
        skipped == 0 ? "the file has no rows" : fmt::format("none of the {} rows is left: {}", skipped, reasons), path_,
        skipped == 0 ? "give a file with rows" : "check the labels and the columns that were asked for");
  }
  if (skipped > 0) {
    warn_of_rows("{}: left out {} of {} rows: {}", path_, skipped, skipped + static_cast<std::int64_t>(offsets_.size()),
                 reasons);
  }
  if (options_.has_labels() && learns()) number_learned_labels();
}

void TextRowChecks::number_learned_labels() {
  std::vector<std::string> texts = keys_of(labels_);
  sort_classes(texts);
  std::vector<std::int32_t> final_id(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Label& label = labels_[texts[i]];
    if (options_.num_labels > 0 && static_cast<std::int64_t>(i) >= options_.num_labels) {
      throw Error(fmt::format("{} in the column \"{}\" would be label {}, outside the model's head of {} labels",
                              shown_value(texts[i]), options_.label, i, options_.num_labels),
                  label.first_where, "list the labels to use in `labels`, or give the model's head more labels");
    }
    final_id[label.id] = static_cast<std::int32_t>(i);
    label.id = static_cast<std::int32_t>(i);
  }
  for (std::int32_t& id : row_labels_) id = final_id[id];
}

TextDatasetInfo TextRowChecks::info() const {
  TextDatasetInfo info;
  info.fields = options_.texts;
  info.has_labels = options_.has_labels();
  if (!info.has_labels) return info;
  for (const auto& [text, label] : labels_) info.labels[text] = label.id;
  return info;
}

}  // namespace lockstep
