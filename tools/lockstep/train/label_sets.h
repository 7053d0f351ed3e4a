// Labels of which a row of texts may have several.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/text_dataset.h"
#include "lockstep/data/text_file.h"

namespace lockstep {

/// The labels that a list names: JSON, as ["rude","threat"] or [0,3], or as Python prints it, ['rude', 'threat'].
/// Empty optional: `text` is not such a list.
std::optional<std::vector<std::string>> parse_label_list(const std::string& text);

/// The names in all lists, each once, in numeric order if all are numbers, else in order of the texts.
/// @param lists  texts of labels, each of which parse_label_list reads
std::vector<std::string> names_in_lists(const std::vector<std::string>& lists);

/// A label that consists of others, with a character between: "rude|threat" beside "rude" and "threat". Nothing if
/// there is none.
std::optional<std::string> joined_label_in(const std::vector<std::string>& labels);

/// The rows whose labels are all in `names`. Logs how many are left out. @throws UsageError  if no row is left
std::shared_ptr<const TextDataset> rows_of_known_labels(std::shared_ptr<const TextDataset> rows,
                                                        const std::vector<std::string>& names, const std::string& path);

/// The samples of `dataset` with labels [names] of float32: 1 for each label that the row's list names, else 0.
/// @param lists  the label of each list, as TextDataset::labels
/// @param unlisted  Skip: labels that are not in `names` belong to rows that were left out
/// @throws UsageError  if a text is not a list, names a label twice, or one that is not in `names`
std::shared_ptr<const Dataset> with_sets_as_labels(std::shared_ptr<const Dataset> dataset,
                                                   const std::map<std::string, std::int64_t>& lists,
                                                   const std::vector<std::string>& names, const std::string& path,
                                                   RowPolicy unlisted);

}  // namespace lockstep
