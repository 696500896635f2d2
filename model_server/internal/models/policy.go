package models

import (
	"slices"

	"afo/model_server/internal/config"
)

// wanted says which versions a policy picks of those on disk (newest first), the newest first.
func wanted(policy config.Versions, found []candidate) []candidate {
	switch {
	case policy.All:
		return found
	case policy.Specific != nil:
		return slices.DeleteFunc(slices.Clone(found), func(each candidate) bool {
			return !slices.Contains(policy.Specific, each.number)
		})
	default:
		return found[:min(policy.Latest, len(found))]
	}
}

// numbersOf is what the policy wants served. A version that is named in the configuration is wanted whether or not its
// directory is still there: what is loaded needs it no more.
func numbersOf(policy config.Versions, picked []candidate) []int64 {
	if policy.Specific != nil {
		return policy.Specific
	}
	numbers := make([]int64, 0, len(picked))
	for _, each := range picked {
		numbers = append(numbers, each.number)
	}
	return numbers
}
