package models

// Problem is what keeps a version, or all of them, from coming to base_path from elsewhere.
type Problem struct {
	Path string
	// Version is 0 where it is all of them.
	Version int64
	Err     error
}

// elsewhere are the problems of the place that base_path is copied from; none where it is copied from nowhere.
func (m *model) elsewhere() []problem {
	if m.shared.problems == nil {
		return nil
	}
	var found []problem
	for _, each := range m.shared.problems(m.Name) {
		found = append(found, problem{each.Path, each.Version, each.Err})
	}
	return found
}
