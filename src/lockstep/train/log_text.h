#pragma once

#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// A number as Python prints it: the shortest text that reads back as the same number, with a point or an exponent.
/// "nan", "inf".
std::string python_number(double value);

/// One line as Hugging Face's Trainer prints its logs: {'loss': 0.6931, 'learning_rate': 5e-05, 'epoch': 1.0}. The
/// training loss is rounded to 4 digits, the epoch to 2; "total_flos" is left out, as by Hugging Face.
std::string log_line_text(const Logs& logs);

/// `***** train metrics *****`, then a line `  name = value` for each metric, aligned; "_runtime" as h:mm:ss.ms.
std::string metrics_text(const std::string& split, const Logs& metrics);

/// `value` rounded to `digits` decimals.
double rounded(double value, int digits);

}  // namespace lockstep
