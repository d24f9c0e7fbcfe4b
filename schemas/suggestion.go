package schemas

// Suggestion is a package that a registry entry (server.json) names, with what its server wants to be given. It is a stranger's
// wish: whoever follows it looks the package up and shows what would be installed.
type Suggestion struct {
	Package   Package           // Name is filled in; Args may hold ${input:ID}; of a Bundle, Spec is the address of its file
	Integrity string            // of a Bundle: sha256:… that the file must have; "" = not told
	Env       map[string]string // values may hold ${input:ID}
	Inputs    []Input           // what Args and Env refer to
	Optional  []string          // ids of Inputs that may stay empty
}

// Onto gives a plan what the suggestion knows about its server. What the plan knows itself stays.
func (s Suggestion) Onto(p PackagePlan) PackagePlan {
	env := map[string]string{}
	for k, v := range s.Env {
		env[k] = v
	}
	for k, v := range p.Server.Env {
		env[k] = v
	}
	if len(env) > 0 {
		p.Server.Env = env
	}
	have := map[string]bool{}
	for _, in := range p.Inputs {
		have[in.ID] = true
	}
	var optional []string
	for _, in := range s.Inputs {
		if !have[in.ID] {
			p.Inputs = append(p.Inputs[:len(p.Inputs):len(p.Inputs)], in)
			for _, id := range s.Optional {
				if id == in.ID {
					optional = append(optional, id)
				}
			}
		}
	}
	p.Optional = append(p.Optional[:len(p.Optional):len(p.Optional)], optional...)
	return p
}
