// Work of this process that nobody waits for: one piece behind the other, on a thread that is there while there is any.
#pragma once

#include <functional>

namespace afo {

// `work` may not throw. It is lost where the process ends before its turn.
void RunInBackground(std::function<void()> work);

}  // namespace afo
