#pragma once

#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// A number as Python writes it: the shortest text that reads back the same, with a point or an exponent. "nan", "inf".
std::string python_number(double value);

/// One line as Hugging Face's Trainer prints its logs: {'loss': 0.6931, 'learning_rate': 5e-05, 'epoch': 1.0}. The
/// training loss and the epoch are rounded, to 4 and 2 digits; "total_flos" is left out, as there.
std::string log_line_text(const Logs& logs);

/// `***** train metrics *****`, and below it a line `  name = value` for each, aligned; "_runtime" as h:mm:ss.ms.
std::string metrics_text(const std::string& split, const Logs& metrics);

/// `value` rounded to `digits` behind the point.
double rounded(double value, int digits);

}  // namespace lockstep
