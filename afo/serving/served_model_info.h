// What `get_serving_model_info` says of a model.
#pragma once

#include <string>

#include "afo/serving/served_model.h"

namespace afo {

// A JSON object: the model's directory and signatures, and what its assets.extra/afo.json says of the training.
std::string DescribeServedModel(const ServedModel& model);

}  // namespace afo
